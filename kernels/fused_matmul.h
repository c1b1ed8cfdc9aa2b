// Products that go on with what most often follows them. kernel.h has the rules for all kernels.
//
// A bias, GELU or residual addition of its own reads the product's result from memory and writes it
// again. On a GPU the product can do it while it still has the result in registers: an *epilogue*
// of cuBLASLt. It is used in bf16 and fp16, where all extents are multiples of 8, all rows begin at
// multiples of 16 bytes, and cuBLASLt has an algorithm. The sum then gets its bias, and the
// residual, before it is rounded to 16 bits, and not after. Everywhere else the bits are those of
// the kernels one after the other: matmul, add_bias, gelu_forward, gelu_backward, add_residual.
#pragma once

#include "kernels/matmul.h"

namespace ladder {

// out (M, N) = a (M, K) b (K, N) + bias (N), for each row; with b^T and b (N, K) if `transpose_b`
void matmul_bias(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                 ConstTensorView bias, bool transpose_b = false);

// The same in `before` (M, N), and out (M, N) = gelu(before).
void matmul_bias_gelu(Stream& stream, TensorView out, TensorView before, ConstTensorView a,
                      ConstTensorView b, ConstTensorView bias);

// out (M, N) = residual (M, N) + (a (M, K) b (K, N) + bias (N)), for each row. It ends a sublayer
// that one rank computes alone; where ranks share it, they sum first (add_residual, residual.h). If
// `bias` is empty there is none. With b^T and b (N, K) if `transpose_b`.
void matmul_residual(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                     ConstTensorView bias, ConstTensorView residual, bool transpose_b = false);

// din (M, N) = dout (M, K) b^T * (the derivative of GELU at `before` (M, N)), with b (N, K)
void matmul_gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView b,
                          ConstTensorView before);

// What each kernel computes and moves (Cost in kernel.h). What follows the product costs no bytes
// of its own, since it has the result in registers.
inline Cost fused_cost(Cost product, double flops, ConstTensorView also_moved) {
  product.other_flops += flops;
  product.bytes_read += number_of(also_moved.num_bytes());
  return product;
}
inline Cost matmul_bias_cost(ConstTensorView out, ConstTensorView a, ConstTensorView b,
                             ConstTensorView bias, bool transpose_b = false) {
  return fused_cost(matmul_cost(out, a, b, {.transpose_b = transpose_b}),
                    number_of(out.num_elements()), bias);
}
inline Cost matmul_bias_gelu_cost(ConstTensorView out, ConstTensorView before, ConstTensorView a,
                                  ConstTensorView b) {
  return fused_cost(matmul_cost(out, a, b), 2 * number_of(out.num_elements()), before);
}
inline Cost matmul_residual_cost(ConstTensorView out, ConstTensorView a, ConstTensorView b,
                                 ConstTensorView bias, ConstTensorView residual,
                                 bool transpose_b = false) {
  const double sums = bias.empty() ? 1 : 2;
  return fused_cost(matmul_cost(out, a, b, {.transpose_b = transpose_b}),
                    sums * number_of(out.num_elements()), residual);
}
inline Cost matmul_gelu_backward_cost(ConstTensorView din, ConstTensorView dout, ConstTensorView b,
                                      ConstTensorView before) {
  return fused_cost(matmul_cost(din, dout, b, {.transpose_b = true}),
                    2 * number_of(din.num_elements()), before);
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::matmul_bias) matmul_bias;
decltype(ladder::matmul_bias_gelu) matmul_bias_gelu;
decltype(ladder::matmul_residual) matmul_residual;
decltype(ladder::matmul_gelu_backward) matmul_gelu_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::matmul_bias) matmul_bias;
decltype(ladder::matmul_bias_gelu) matmul_bias_gelu;
decltype(ladder::matmul_residual) matmul_residual;
decltype(ladder::matmul_gelu_backward) matmul_gelu_backward;
}  // namespace cuda

// Returns the shape of b that multiplies (M, K) into (M, N).
inline Shape factor_shape(size_t k, size_t n, bool transpose_b) {
  return transpose_b ? Shape{n, k} : Shape{k, n};
}

inline void matmul_bias(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                        ConstTensorView bias, bool transpose_b) {
  const ArgumentCheck expect("matmul_bias", stream, "a", a, 2);
  const size_t n = bias.num_elements();
  expect("b", b, factor_shape(a.shape()[1], n, transpose_b));
  expect("bias", bias, {n});
  expect("out", out, {a.shape()[0], n});
  run_body(expect, matmul_bias_cost(out, a, b, bias, transpose_b), cpu::matmul_bias,
           cuda::matmul_bias, stream, out, a, b, bias, transpose_b);
}

inline void matmul_bias_gelu(Stream& stream, TensorView out, TensorView before, ConstTensorView a,
                             ConstTensorView b, ConstTensorView bias) {
  const ArgumentCheck expect("matmul_bias_gelu", stream, "a", a, 2);
  const size_t n = bias.num_elements();
  expect("b", b, {a.shape()[1], n});
  expect("bias", bias, {n});
  expect("before", before, {a.shape()[0], n});
  expect("out", out, {a.shape()[0], n});
  run_body(expect, matmul_bias_gelu_cost(out, before, a, b), cpu::matmul_bias_gelu,
           cuda::matmul_bias_gelu, stream, out, before, a, b, bias);
}

inline void matmul_residual(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                            ConstTensorView bias, ConstTensorView residual, bool transpose_b) {
  const ArgumentCheck expect("matmul_residual", stream, "a", a, 2);
  const size_t n = out.shape().num_dims() == 2 ? out.shape()[1] : 0;
  expect("b", b, factor_shape(a.shape()[1], n, transpose_b));
  if (!bias.empty()) expect("bias", bias, {n});
  expect("residual", residual, {a.shape()[0], n});
  expect("out", out, {a.shape()[0], n});
  run_body(expect, matmul_residual_cost(out, a, b, bias, residual, transpose_b),
           cpu::matmul_residual, cuda::matmul_residual, stream, out, a, b, bias, residual,
           transpose_b);
}

inline void matmul_gelu_backward(Stream& stream, TensorView din, ConstTensorView dout,
                                 ConstTensorView b, ConstTensorView before) {
  const ArgumentCheck expect("matmul_gelu_backward", stream, "dout", dout, 2);
  const size_t m = dout.shape()[0], k = dout.shape()[1];
  const size_t n = before.shape().num_dims() == 2 ? before.shape()[1] : 0;
  expect("b", b, {n, k});
  expect("before", before, {m, n});
  expect("din", din, {m, n});
  run_body(expect, matmul_gelu_backward_cost(din, dout, b, before), cpu::matmul_gelu_backward,
           cuda::matmul_gelu_backward, stream, din, dout, b, before);
}

}  // namespace ladder
