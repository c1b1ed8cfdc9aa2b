// The graphs of attention, as cuDNN knows them: it has one kernel for forward and a few for
// backward, and finds them by the operations and their order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/cudnn/graph.h"
#include "kernels/cudnn_attention.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/launch_observer.h"

namespace ladder {
namespace cudnn {
namespace {

using Order = CudnnAttention::Order;

// The names of the tensors in memory.
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

constexpr float kNothing = -std::numeric_limits<float>::infinity();  // the score of an unseen key

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

Sizes sizes_of(DType dtype, const Shape& out, size_t num_heads, size_t qkv_columns) {
  const size_t head_size = out[2] / num_heads;
  return {.device = selected_device(DeviceType::cuda),
          .dtype = dtype,
          .batch = out[0],
          .tokens = out[1],
          .num_heads = num_heads,
          .num_kv_heads = (qkv_columns - out[2]) / 2 / head_size,
          .head_size = head_size};
}

// Sets the scores of keys after the query to minus infinity.
Graph::Node masked(Graph& g, const Sizes& s, Graph::Node scores) {
  const Form index = s.scores().as(CUDNN_DATA_INT32);
  Graph::Node query = g.index(2, scores, index);
  Graph::Node key = g.index(3, scores, index);
  Graph::Node sees =
      g.pointwise(CUDNN_POINTWISE_CMP_GE, s.scores().as(CUDNN_DATA_BOOLEAN), {&query, &key});
  return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, s.scores(),
                     {&scores, &g.scalar(kUnseen), &sees});
}

// out = softmax(masked(scale q k^T)) v, and the log of the sum of the exponentials.
Plan forward_plan(const Handle& handle, const Sizes& s) {
  Graph g(s.text("attention_forward"));
  const Form scores = s.scores(), rows = s.rows();
  Graph::Node q = g.memory(kQ, s.queries()), k = g.memory(kK, s.keys().transposed());
  Graph::Node products = g.matmul(q, k, scores);
  Graph::Node seen =
      masked(g, s, g.pointwise(CUDNN_POINTWISE_MUL, scores, {&products, &g.scalar(kScale)}));
  Graph::Node largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, rows);
  Graph::Node below = g.pointwise(CUDNN_POINTWISE_SUB, scores, {&seen, &largest});
  Graph::Node exponentials = g.pointwise(CUDNN_POINTWISE_EXP, scores, {&below});
  Graph::Node total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, rows);
  Graph::Node log = g.pointwise(CUDNN_POINTWISE_LOG, rows, {&total});
  g.pointwise_into(g.memory(kLogsumexp, rows), CUDNN_POINTWISE_ADD, {&largest, &log});
  Graph::Node p = g.pointwise(CUDNN_POINTWISE_DIV, scores.as(s.type()), {&exponentials, &total});
  g.matmul_into(g.memory(kOut, s.out()), p, g.memory(kV, s.keys()));
  return g.plan(handle);
}

// Sums the gradients of the query heads of a group, if there is more than one, into the tensor
// `id`.
void sum_group(Graph& g, const Sizes& s, Id id, Graph::Node left, Graph::Node right) {
  Graph::Node out = g.memory(id, s.keys());
  if (s.num_heads == s.num_kv_heads) {
    g.matmul_into(out, left, right);
    return;
  }
  const Form of_all = Form::packed(s.type(), s.queries().extents);
  g.reduce_into(out, CUDNN_REDUCE_TENSOR_ADD, g.matmul(left, right, of_all));
}

// As in kernels/cuda/README.md: row_dot = sum of dout * out; p = exp(scores - logsumexp); dv = p^T
// dout; ds = p (dout v^T - row_dot) scale; dk = ds^T q; dq = ds k.
Plan backward_plan(const Handle& handle, const Sizes& s, Order order) {
  Graph g(s.text("attention_backward"));
  const Form scores = s.scores(), rows = s.rows(), across = scores.as(s.type()).transposed();
  Graph::Node dout = g.memory(kDout, s.out()), out = g.memory(kOut, s.out());
  Graph::Node terms = g.pointwise(CUDNN_POINTWISE_MUL,
                                  Form::packed(CUDNN_DATA_FLOAT, s.out().extents), {&dout, &out});
  Graph::Node sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, terms, rows);
  Graph::Node row_dot = g.memory(kRowDot, rows);
  g.pointwise_into(row_dot, CUDNN_POINTWISE_MUL, {&sums, &g.scalar(kOne)});

  Graph::Node q = g.memory(kQ, s.queries()), k = g.memory(kK, s.keys().transposed());
  Graph::Node scale = g.scalar(kScale);
  Graph::Node products = g.matmul(q, k, scores);
  Graph::Node scaled = g.pointwise(CUDNN_POINTWISE_MUL, scores, {&products, &scale});
  Graph::Node logarithms =
      g.pointwise(CUDNN_POINTWISE_SUB, scores, {&scaled, &g.memory(kLogsumexp, rows)});
  Graph::Node seen = masked(g, s, logarithms);
  Graph::Node p = g.pointwise(CUDNN_POINTWISE_EXP, scores, {&seen});
  sum_group(g, s, kDv, g.reshape(p, across), dout);

  Graph::Node dp = g.matmul(dout, g.memory(kV, s.keys().transposed()), scores);
  Graph::Node less = g.pointwise(CUDNN_POINTWISE_SUB, scores, {&dp, &row_dot});
  Graph::Node weighted = g.pointwise(CUDNN_POINTWISE_MUL, scores, {&less, &p});
  Graph::Node ds = g.pointwise(CUDNN_POINTWISE_MUL, scores, {&weighted, &scale});
  sum_group(g, s, kDk, g.reshape(ds, across), q);

  Graph::Node keys = g.reshape(k, s.keys());
  Graph::Node dq = g.memory(kDq, s.queries());
  if (order == Order::fixed) {
    g.matmul_into(dq, ds, keys);
  } else {
    Graph::Node dq_sums = g.memory(kDqSums, Form::packed(CUDNN_DATA_FLOAT, s.queries().extents));
    g.matmul_into(dq_sums, ds, keys);
    g.pointwise_into(dq, CUDNN_POINTWISE_IDENTITY, {&dq_sums});
  }
  return g.plan(handle);
}

// Returns the plan for these sizes, which is made once in a program: it takes cuDNN up to a second.
// Plans stay until the program has ended, since then the GPU may be gone.
template <class Key, class Make>
const Plan& planned(const Key& key, Make make) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<Key, Plan>;
  const std::lock_guard lock(mutex);
  const auto found = plans.find(key);
  return found != plans.end() ? found->second : plans.emplace(key, make()).first->second;
}

// The addresses of q, k and v, or of their gradients, in a tensor that has them side by side.
struct Parts {
  Parts(const Sizes& s, const ConstTensorView& qkv)
      : q(static_cast<const uint16_t*>(qkv.data())),
        k(q + s.query_columns()),
        v(k + s.key_columns()) {}
  const uint16_t *q, *k, *v;
};

}  // namespace
}  // namespace cudnn

struct CudnnAttention::State {
  State(Memory& arena, Order sums) : memory(arena), order(sums) {}

  const cudnn::Plan& forward(const cudnn::Sizes& s) {
    return cudnn::planned(s, [&] { return cudnn::forward_plan(handle, s); });
  }
  const cudnn::Plan& backward(const cudnn::Sizes& s) {
    return cudnn::planned(std::pair(s, order),
                          [&] { return cudnn::backward_plan(handle, s, order); });
  }
  // Makes room for plans of these sizes.
  void reserve(const cudnn::Sizes& s) {
    const size_t bytes = std::max(forward(s).workspace_bytes(), backward(s).workspace_bytes());
    enlarge(workspace, (bytes + 3) / 4);
    if (order == Order::any) enlarge(dq_sums, s.batch * s.tokens * s.query_columns());
  }
  void enlarge(Tensor& tensor, size_t elements) {
    if (elements <= tensor.view().num_elements()) return;
    tensor = {};
    tensor = Tensor(memory, Category::workspace, DType::fp32, {elements});
  }
  void run(Stream& stream, const char* name, const cudnn::Plan& plan,
           std::span<const cudnn::Bound> tensors) {
    const ObservedLaunch observed(stream.native(), name);
    cudnn::check_status(cudnn::library().set_stream(handle.get(), stream.native()),
                        "cudnnSetStream", name);
    plan.run(handle, tensors, workspace.view().data());
  }

  cudnn::Handle handle;
  Memory& memory;
  Order order;
  Tensor workspace, dq_sums;
};

void CudnnAttention::require(DeviceType device, DType dtype, size_t head_size) {
  if (device != DeviceType::cuda) {
    throw UserError(concat("cuDNN computes on GPUs, and the device is ", name_of(device)));
  }
  if (size_of(dtype) != 2) {
    throw UserError(concat("cuDNN's attention takes bf16 and fp16, no ", name_of(dtype)));
  }
  if (head_size % 8 != 0 || head_size > 128) {
    throw UserError(
        concat("cuDNN's attention takes heads of a multiple of 8 elements, up to 128; these have ",
               head_size));
  }
  cudnn::library();
}

std::string CudnnAttention::name() {
  return concat("cuDNN ", cudnn::version_text(cudnn::library().get_version()));
}

CudnnAttention::CudnnAttention(Memory& memory, DType dtype, const Shape& out, size_t num_heads,
                               size_t qkv_columns, Order order) {
  require(memory.device(), dtype, out[2] / num_heads);
  state_ = std::make_unique<State>(memory, order);
  state_->reserve(cudnn::sizes_of(dtype, out, num_heads, qkv_columns));
}
CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::forward(Stream& stream, TensorView out, TensorView logsumexp,
                             ConstTensorView qkv) {
  const ArgumentCheck expect("attention_forward", stream, "out", out, 3);
  const Shape rows = attention_rows("attention_forward", out.shape(), logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  check_qkv(expect, qkv, out.shape(), rows);
  using namespace cudnn;
  const Sizes s = sizes_of(out.dtype(), out.shape(), rows[1], qkv.shape()[2]);
  state_->reserve(s);
  const Parts in(s, qkv);
  const float scale = s.scale();
  const Bound tensors[] = {{kQ, in.q},
                           {kK, in.k},
                           {kV, in.v},
                           {kOut, out.data()},
                           {kScale, &scale},
                           {kUnseen, &kNothing},
                           {kLogsumexp, logsumexp.data()}};
  state_->run(stream, "cudnn_attention_forward", state_->forward(s), tensors);
}

void CudnnAttention::backward(Stream& stream, TensorView dqkv, TensorView row_dot,
                              ConstTensorView dout, ConstTensorView out, ConstTensorView logsumexp,
                              ConstTensorView qkv) {
  const ArgumentCheck expect("attention_backward", stream, "out", out, 3);
  const Shape rows = attention_rows("attention_backward", out.shape(), logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  expect("dout", dout, out.shape());
  check_qkv(expect, qkv, out.shape(), rows);
  expect("dqkv", dqkv, qkv.shape());
  using namespace cudnn;
  const Sizes s = sizes_of(out.dtype(), out.shape(), rows[1], qkv.shape()[2]);
  state_->reserve(s);
  const Parts in(s, qkv), gradient(s, dqkv);
  const float scale = s.scale(), one = 1;
  std::vector<Bound> tensors = {{kQ, in.q},
                                {kK, in.k},
                                {kV, in.v},
                                {kDq, gradient.q},
                                {kDk, gradient.k},
                                {kDv, gradient.v},
                                {kOut, out.data()},
                                {kDout, dout.data()},
                                {kLogsumexp, logsumexp.data()},
                                {kRowDot, row_dot.data()},
                                {kScale, &scale},
                                {kUnseen, &kNothing},
                                {kOne, &one}};
  if (state_->order == Order::any) tensors.push_back({kDqSums, state_->dq_sums.view().data()});
  state_->run(stream, "cudnn_attention_backward", state_->backward(s), tensors);
}

}  // namespace ladder
