// Cases of the kernels with products.
#include "kernels/attention.h"
#include "kernels/fused_matmul.h"
#include "tools/measure/calibrator/case_parts.h"

namespace ladder::cases {
namespace {

// Extents of attention: one sequence, with the heads of all.
struct Attention {
  Attention(const Call& c, double elements, double products) {
    const double keys = c.cost.product_flops / (products * elements);
    tokens = whole(keys);
    columns = whole(elements / keys);
    heads = whole(c.cost.other_flops / (keys * keys / 2));
  }
  Shape out() const { return {1, tokens, columns}; }
  Shape qkv() const { return {1, tokens, 3 * columns}; }
  Shape rows() const { return {1, heads, tokens}; }
  size_t tokens, columns, heads;
};

}  // namespace

KernelCase matmul_case(const Call& c) {
  const size_t m = c.cost.m, n = c.cost.n, k = c.cost.k;
  const DType out = c.cost.bytes_written > number_of(m * n) * c.bytes() ? c.sums : c.x;
  if (c.cost.other_flops > 0) {  // a weight gradient
    return [=](Stream& stream, Buffers& at) {
      matmul(stream, at.cold_out({m, n}, out), at.cold_in({k, m}, c.x), at.warm_in({k, n}, c.x),
             {.transpose_a = true, .accumulate = true});
    };
  }
  // With a transposed weight it is an input gradient or logits, which the next kernel reads; else a
  // layer's forward, or the classifier's input gradient, which wait for backward.
  const bool transposed = c.cost.transpose_b;
  return [=](Stream& stream, Buffers& at) {
    matmul(stream, transposed ? at.warm_out({m, n}, out) : at.cold_out({m, n}, out),
           at.warm_in({m, k}, c.x), at.cold_in(transposed ? Shape{n, k} : Shape{k, n}, c.x),
           {.transpose_b = transposed});
  };
}

KernelCase matmul_bias_case(const Call& c) {
  const size_t m = c.cost.m, n = c.cost.n, k = c.cost.k;
  return [=](Stream& stream, Buffers& at) {
    matmul_bias(stream, at.cold_out({m, n}, c.x), at.warm_in({m, k}, c.x), at.cold_in({k, n}, c.x),
                at.cold_in({n}, c.x));
  };
}

KernelCase matmul_bias_gelu_case(const Call& c) {
  const size_t m = c.cost.m, n = c.cost.n, k = c.cost.k;
  return [=](Stream& stream, Buffers& at) {
    matmul_bias_gelu(stream, at.cold_out({m, n}, c.x), at.cold_out({m, n}, c.x),
                     at.warm_in({m, k}, c.x), at.cold_in({k, n}, c.x), at.cold_in({n}, c.x));
  };
}

KernelCase matmul_residual_case(const Call& c) {
  const size_t m = c.cost.m, n = c.cost.n, k = c.cost.k;
  return [=](Stream& stream, Buffers& at) {
    matmul_residual(stream, at.cold_out({m, n}, c.x), at.warm_in({m, k}, c.x),
                    at.cold_in({k, n}, c.x), at.cold_in({n}, c.x), at.cold_in({m, n}, c.x));
  };
}

KernelCase matmul_gelu_backward_case(const Call& c) {
  const size_t m = c.cost.m, n = c.cost.n, k = c.cost.k;
  return [=](Stream& stream, Buffers& at) {
    matmul_gelu_backward(stream, at.warm_out({m, n}, c.x), at.warm_in({m, k}, c.x),
                         at.cold_in({n, k}, c.x), at.cold_in({m, n}, c.x));
  };
}

KernelCase attention_forward_case(const Call& c) {
  const Attention a(c, c.cost.bytes_read / (3 * c.bytes()), 2);
  return [=](Stream& stream, Buffers& at) {
    attention_forward(stream, at.cold_out(a.out(), c.x), at.cold_out(a.rows(), c.sums),
                      at.warm_in(a.qkv(), c.x));
  };
}

KernelCase attention_backward_case(const Call& c) {
  const Attention a(c, c.cost.bytes_written / (3 * c.bytes()), 5);
  return [=](Stream& stream, Buffers& at) {
    attention_backward(stream, at.warm_out(a.qkv(), c.x), at.warm_out(a.rows(), c.sums),
                       at.warm_in(a.out(), c.x), at.cold_in(a.out(), c.x),
                       at.cold_in(a.rows(), c.sums), at.cold_in(a.qkv(), c.x));
  };
}

}  // namespace ladder::cases
