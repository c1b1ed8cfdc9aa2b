// The graphs of attention, as cuDNN knows them: it has one kernel for forward and a few for
// backward, and finds them by the operations and their order.
#pragma once

#include <cmath>

#include "kernels/cudnn/graph.h"
#include "kernels/cudnn_attention.h"

namespace ladder::cudnn {

using Order = CudnnAttention::Order;

// The names of the tensors in memory. The last three are numbers: what scores are multiplied with,
// the score of an unseen key, and 1.
enum Id : int64_t {
  kQ,
  kK,
  kV,
  kOut,
  kLogsumexp,
  kDout,
  kDq,
  kDk,
  kDv,
  kRowDot,
  kDqSums,
  kScale,
  kUnseen,
  kOne
};

// What decides which kernel is needed.
struct Sizes {
  size_t device;  // the GPU's number
  DType dtype;
  size_t batch, tokens, num_heads, num_kv_heads, head_size;

  auto operator<=>(const Sizes&) const = default;

  std::string text(const char* kernel) const {
    return concat(kernel, " (", name_of(dtype), ", B ", batch, ", T ", tokens, ", NH ", num_heads,
                  ", NKV ", num_kv_heads, ", HS ", head_size, ")");
  }
  cudnnDataType_t type() const {
    return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_size)); }
  size_t query_columns() const { return num_heads * head_size; }
  size_t key_columns() const { return num_kv_heads * head_size; }
  size_t qkv_columns() const { return query_columns() + 2 * key_columns(); }

  // The vectors of `heads` heads in a matrix whose rows, one for each token, have `columns`
  // elements.
  Form vectors(size_t heads, size_t columns) const {
    const auto n = [](size_t count) { return static_cast<int64_t>(count); };
    return {type(),
            {n(batch), n(heads), n(tokens), n(head_size)},
            {n(tokens * columns), n(head_size), n(columns), 1}};
  }
  Form queries() const { return vectors(num_heads, qkv_columns()); }
  Form keys() const { return vectors(num_kv_heads, qkv_columns()); }
  Form out() const { return vectors(num_heads, query_columns()); }
  Form scores() const { return of_queries(tokens); }
  Form rows() const { return of_queries(1); }  // one number for each query

 private:
  Form of_queries(size_t columns) const {
    return Form::packed(CUDNN_DATA_FLOAT,
                        {static_cast<int64_t>(batch), static_cast<int64_t>(num_heads),
                         static_cast<int64_t>(tokens), static_cast<int64_t>(columns)});
  }
};

// Returns the sizes for an `out` of (B, T, C), on the GPU that this thread uses.
Sizes sizes_of(DType dtype, const Shape& out, size_t num_heads, size_t qkv_columns);

// Return a kernel for attention_forward and attention_backward (kernels/attention.h). Throw an
// Error if cuDNN has none.
Plan forward_plan(const Handle& handle, const Sizes& s);
Plan backward_plan(const Handle& handle, const Sizes& s, Order order);

}  // namespace ladder::cudnn
