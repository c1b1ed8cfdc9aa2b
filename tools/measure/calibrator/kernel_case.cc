#include "tools/measure/calibrator/kernel_case.h"

#include <map>
#include <string_view>

#include "kernels/adamw.h"
#include "kernels/classifier.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "tools/measure/calibrator/case_parts.h"
#include "tools/measure/calibrator/probe.h"

namespace ladder {
namespace cases {
namespace {

// Rows and columns of a matrix.
struct Extents {
  size_t rows, columns;
  Shape shape() const { return {rows, columns}; }
};
Extents extents(double elements, double columns) {
  return {whole(elements / columns), whole(columns)};
}

KernelCase layernorm_forward_case(const Call& c) {
  const double elements = c.cost.other_flops / 8;
  const auto e = extents(elements, (c.cost.bytes_read - elements * c.bytes()) / (2 * c.bytes()));
  return [=](Stream& stream, Buffers& at) {
    layernorm_forward(stream, at.cold_out(e.shape(), c.x), at.cold_out({e.rows}, c.sums),
                      at.cold_out({e.rows}, c.sums), at.warm_in(e.shape(), c.x),
                      at.cold_in({e.columns}, c.x), at.cold_in({e.columns}, c.x));
  };
}

KernelCase layernorm_backward_case(const Call& c) {
  const double elements = c.cost.other_flops / 16;
  const auto e =
      extents(elements, (c.cost.bytes_written - elements * c.bytes()) / (2 * c.sum_bytes()));
  return [=](Stream& stream, Buffers& at) {
    layernorm_backward(stream, at.warm_out(e.shape(), c.x), at.cold_out({e.columns}, c.sums),
                       at.cold_out({e.columns}, c.sums), at.warm_in(e.shape(), c.x),
                       at.cold_in(e.shape(), c.x), at.cold_in({e.columns}, c.x),
                       at.cold_in({e.rows}, c.sums), at.cold_in({e.rows}, c.sums));
  };
}

KernelCase bias_backward_case(const Call& c) {
  const auto e = extents(c.cost.other_flops, c.cost.bytes_written / c.sum_bytes());
  return [=](Stream& stream, Buffers& at) {
    bias_backward(stream, at.cold_out({e.columns}, c.sums), at.warm_in(e.shape(), c.x));
  };
}

KernelCase add_residual_case(const Call& c) {
  const double elements = c.cost.other_flops / 2;
  const auto e = extents(elements, c.cost.bytes_read / c.bytes() - 2 * elements);
  return [=](Stream& stream, Buffers& at) {
    add_residual(stream, at.cold_out(e.shape(), c.x), at.warm_in(e.shape(), c.x),
                 at.warm_in(e.shape(), c.x), at.cold_in({e.columns}, c.x));
  };
}

KernelCase gelu_forward_case(const Call& c) {
  const size_t n = whole(c.cost.other_flops / 8);
  return [=](Stream& stream, Buffers& at) {
    gelu_forward(stream, at.cold_out({n}, c.x), at.warm_in({n}, c.x));
  };
}

KernelCase gelu_backward_case(const Call& c) {
  const size_t n = whole(c.cost.other_flops / 14);
  return [=](Stream& stream, Buffers& at) {
    gelu_backward(stream, at.warm_out({n}, c.x), at.warm_in({n}, c.x), at.cold_in({n}, c.x));
  };
}

KernelCase embedding_forward_case(const Call& c) {
  const double elements = c.cost.bytes_written / c.bytes();
  const double rows = (c.cost.bytes_read - c.cost.bytes_written) / sizeof(int32_t);
  const auto e = extents(elements, elements / rows);
  return [=](Stream& stream, Buffers& at) {
    embedding_forward(stream, at.warm_out({1, e.rows, e.columns}, c.x), at.tokens({1, e.rows}),
                      at.warm_in({Buffers::kNumTokens, e.columns}, c.x));
  };
}

KernelCase embedding_backward_case(const Call& c) {
  const double elements = c.cost.other_flops, table = c.cost.bytes_written;
  const double rows = (c.cost.bytes_read - elements * c.bytes() - table) / sizeof(int32_t);
  const auto e = extents(elements, elements / rows);
  return [=](Stream& stream, Buffers& at) {
    embedding_backward(stream, at.warm_out({Buffers::kNumTokens, e.columns}, c.sums),
                       at.tokens({1, e.rows}), at.warm_in({1, e.rows, e.columns}, c.x));
  };
}

// Returns the shape (B, T, C) of so many elements, whose table of positions has T * C. Where T ends
// and C begins makes no difference.
Shape positions_shape(double elements, double table) {
  size_t columns = 1024;
  while (whole(table) % columns != 0) --columns;
  return {whole(elements / table), whole(table) / columns, columns};
}

KernelCase position_forward_case(const Call& c) {
  const Shape shape =
      positions_shape(c.cost.other_flops, (c.cost.bytes_read - c.cost.bytes_written) / c.bytes());
  return [=](Stream& stream, Buffers& at) {
    position_forward(stream, at.warm_out(shape, c.x), at.warm_in(shape, c.x),
                     at.cold_in({shape[1], shape[2]}, c.x));
  };
}

KernelCase position_backward_case(const Call& c) {
  const Shape shape = positions_shape(c.cost.other_flops, c.cost.bytes_written / c.sum_bytes());
  return [=](Stream& stream, Buffers& at) {
    position_backward(stream, at.cold_out({shape[1], shape[2]}, c.sums), at.warm_in(shape, c.x));
  };
}

// In the classifier's kernels the leading argument, the logits, has the accumulation dtype, and
// their gradient may have the compute dtype.
DType gradient_of(const Call& c, double bytes, double elements) {
  return bytes < elements * c.bytes() ? DType::bf16 : c.x;
}

KernelCase softmax_cross_entropy_case(const Call& c) {
  const double elements = c.cost.other_flops / 6, rows = c.cost.bytes_read / c.bytes() - elements;
  const auto e = extents(elements, elements / rows);
  const DType out = gradient_of(c, c.cost.bytes_written - rows * c.bytes(), elements);
  return [=](Stream& stream, Buffers& at) {
    const TensorView logits = at.warm_out(e.shape(), c.x);
    softmax_cross_entropy(stream, at.cold_out({e.rows}, c.x),
                          out == c.x ? logits : at.warm_out(e.shape(), out), logits,
                          at.warm_out({3 * e.rows}, c.x), at.tokens({e.rows}), 1);
  };
}

KernelCase softmax_maximum_case(const Call& c) {
  const double elements = c.cost.bytes_read / c.bytes();
  const auto e = extents(elements, elements * c.bytes() / c.cost.bytes_written);
  return [=](Stream& stream, Buffers& at) {
    softmax_maximum(stream, at.warm_out({e.rows}, c.x), at.warm_in(e.shape(), c.x));
  };
}

KernelCase softmax_exponentials_case(const Call& c) {
  const double elements = c.cost.other_flops / 3;
  const auto e = extents(elements, 2 * elements / (c.cost.bytes_read / c.bytes() - elements));
  return [=](Stream& stream, Buffers& at) {
    softmax_exponentials(stream, at.warm_out(e.shape(), c.x), at.warm_out({e.rows}, c.x),
                         at.warm_out({e.rows}, c.x), at.tokens({e.rows}), at.warm_in({e.rows}, c.x),
                         0);
  };
}

KernelCase cross_entropy_case(const Call& c) {
  const double elements = c.cost.other_flops / 2;
  const double rows = (c.cost.bytes_read / c.bytes() - elements) / 2;
  const auto e = extents(elements, elements / rows);
  const DType out = gradient_of(c, c.cost.bytes_written - rows * c.bytes(), elements);
  return [=](Stream& stream, Buffers& at) {
    const TensorView exponentials = at.warm_out(e.shape(), c.x);
    cross_entropy(stream, at.cold_out({e.rows}, c.x),
                  out == c.x ? exponentials : at.warm_out(e.shape(), out), exponentials,
                  at.warm_in({e.rows}, c.x), at.warm_in({e.rows}, c.x), at.tokens({e.rows}), 0, 1);
  };
}

KernelCase adamw_case(const Call& c) {
  const Shape n = {whole(c.cost.other_flops / 14)};
  const bool has_copy = c.cost.bytes_written > 3 * number_of(n[0]) * c.bytes();
  return [=](Stream& stream, Buffers& at) {
    AdamWTensors all = {at.cold_out(n, c.x), at.cold_out(n, c.x), at.cold_out(n, c.x),
                        at.cold_in(n, c.x)};
    if (has_copy) all.copy = at.cold_out(n, DType::bf16);
    adamw(stream, {all}, {.learning_rate = 1e-3, .weight_decay = 0.1});
  };
}

// Sums have a workspace, and give one number.
template <auto kernel>
KernelCase sum_case(const Call& c) {
  const size_t n = whole(c.cost.bytes_read / c.bytes());
  return [=](Stream& stream, Buffers& at) {
    kernel(stream, at.warm_out({1}, DType::fp64),
           at.warm_out({sum_workspace_elements(n)}, DType::fp64), at.cold_in({n}, c.x));
  };
}

KernelCase fill_case(const Call& c) {
  const size_t n = whole(c.cost.bytes_written / c.bytes());
  return [=](Stream& stream, Buffers& at) { fill(stream, at.cold_out({n}, c.x), 0); };
}

KernelCase add_case(const Call& c) {
  const size_t n = whole(c.cost.other_flops);
  return [=](Stream& stream, Buffers& at) {
    const TensorView out = at.cold_out({n}, c.x);
    add(stream, out, out, at.warm_in({n}, c.x));
  };
}

KernelCase scale_case(const Call& c) {
  const size_t n = whole(c.cost.other_flops);
  return [=](Stream& stream, Buffers& at) {
    const TensorView out = at.cold_out({n}, c.x);
    scale(stream, out, out, 1);
  };
}

KernelCase cast_case(const Call& c) {
  const size_t n = whole(c.cost.bytes_written / c.bytes());
  const size_t in_bytes = whole(c.cost.bytes_read) / n;
  const DType in = in_bytes == 8 ? DType::fp64 : in_bytes == 4 ? DType::fp32 : DType::bf16;
  return [=](Stream& stream, Buffers& at) {
    cast(stream, at.cold_out({n}, c.x), at.cold_in({n}, in));
  };
}

KernelCase copy_case(const Call& c) {
  const size_t n = whole(c.cost.bytes_written / c.bytes());
  return [=](Stream& stream, Buffers& at) {
    copy(stream, at.cold_out({n}, c.x), at.cold_in({n}, c.x));
  };
}

const std::map<std::string_view, MakeCase>& makers() {
  static const std::map<std::string_view, MakeCase> all = {
      {"adamw", adamw_case},
      {"add", add_case},
      {"add_residual", add_residual_case},
      {"attention_backward", attention_backward_case},
      {"attention_forward", attention_forward_case},
      {"bias_backward", bias_backward_case},
      {"cast", cast_case},
      {"copy", copy_case},
      {"cross_entropy", cross_entropy_case},
      {"embedding_backward", embedding_backward_case},
      {"embedding_forward", embedding_forward_case},
      {"fill", fill_case},
      {"gelu_backward", gelu_backward_case},
      {"gelu_forward", gelu_forward_case},
      {"layernorm_backward", layernorm_backward_case},
      {"layernorm_forward", layernorm_forward_case},
      {"matmul", matmul_case},
      {"matmul_bias", matmul_bias_case},
      {"matmul_bias_gelu", matmul_bias_gelu_case},
      {"matmul_gelu_backward", matmul_gelu_backward_case},
      {"matmul_residual", matmul_residual_case},
      {"position_backward", position_backward_case},
      {"position_forward", position_forward_case},
      {"scale", scale_case},
      {"softmax_cross_entropy", softmax_cross_entropy_case},
      {"softmax_exponentials", softmax_exponentials_case},
      {"softmax_maximum", softmax_maximum_case},
      {"squared_norm", sum_case<squared_norm>},
      {"sum", sum_case<sum>},
  };
  return all;
}

}  // namespace
}  // namespace cases

KernelCase case_of(const KernelCall& call, Buffers& buffers) {
  const auto found = cases::makers().find(call.name);
  if (found == cases::makers().end()) {
    fail(concat("calibration does not know the kernel ", call.name));
  }
  const KernelCase one = found->second(cases::Call(call));
  buffers.count();
  Probe probe;
  Stream stream(DeviceType::cpu);
  one(stream, buffers);
  if (!probe.seen || key_of(*probe.seen) != key_of(call)) {
    fail(concat("calibration found no arguments of ", call.name, " in ", name_of(call.dtype),
                " that cost the same: ", call.cost.bytes(), " bytes"));
  }
  return one;
}

}  // namespace ladder
