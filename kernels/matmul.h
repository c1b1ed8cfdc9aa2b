// Matrix products. kernel.h has the rules for all kernels.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

struct MatmulOptions {
  bool transpose_a = false;  // use a^T: a is stored (K, M)
  bool transpose_b = false;  // use b^T: b is stored (N, K)
  bool accumulate = false;   // add to out instead of overwriting it
};

// out (M, N) = op(a) (M, K) op(b) (K, N), or += with accumulate. op transposes if the options say
// so.
//   a and b have the compute dtype; out has the compute dtype or the accumulation dtype
//   rows of all three may lie apart
//
// The products of a linear layer out = in W + bias with W (in, out), for R rows:
//   forward          out  = matmul(in, W)
//   input gradient   din  = matmul(dout, W, {.transpose_b = true})
//   weight gradient  dW  += matmul(in, dout, {.transpose_a = true, .accumulate = true})
// Each element is summed over k in an order that depends on the shapes and, in fp32 and bf16, on
// the number of threads. It is the same in every run.
//
// On the CPU oneDNN computes fp32 products, and also bf16 products if the CPU has instructions for
// them (AVX512_BF16; numbers below 2^-126 then count as zero). Their bits may differ between
// machines. Our own loop computes all other products, with the same bits everywhere.
//
// On a GPU cuBLAS computes products, in bf16 and fp16 with the tensor cores. It sums in fp32, also
// when it splits a sum. The first product of a thread on a stream makes a handle of cuBLAS and 32
// MiB of workspace, which no category of memory counts. The emulator computes products like the
// CPU, and rounds factors to TF32 where a GPU would.
//
// Tensor cores need rows that begin at multiples of 16 bytes, and extents that are multiples of 8.
// With 50257 columns side by side, cuBLAS takes six times as long on an H100. If only an extent is
// no multiple of 8, and the rows begin where they should, the last few are computed by themselves:
// see padded_columns().
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options = {});

// Returns how far apart rows of n elements should begin: as matmul needs them on the device.
constexpr size_t padded_columns(size_t n, DeviceType device) {
  return device == DeviceType::cpu ? n : (n + 7) / 8 * 8;
}

// Allows fp32 products on a GPU to use its tensor cores from now on, in all threads. Factors are
// then rounded to TF32's 11 significant bits instead of 24 (a relative error of 2^-11 each), while
// products and sums stay fp32. That is several times as fast, but the equivalence of lessons is not
// tested with it. It is off at first. It changes nothing in fp64 and on other devices.
void set_tf32(bool on);

// From now on products on a GPU use all of its multiprocessors but `count`, in all threads. The
// kernels of a collective find these free; without, a product takes all of them, and thread blocks
// of NCCL wait until tiles end, or tiles wait for them. It is 0 at first. cuBLAS may then choose
// another algorithm, which splits sums in another way, so bits may change. Other devices ignore it.
// Throws a UserError if the GPU in use has no more than `count`. Source: cuBLAS,
// cublasSetSmCountTarget().
void leave_multiprocessors(size_t count);

// out[r, :] += bias for each of R rows.
//   out (R, C) in/out; bias (C) in
void add_bias(Stream& stream, TensorView out, ConstTensorView bias);

// dbias += sum over rows of dout, in an order that does not depend on the number of threads.
//   dbias (C) in/out, in the accumulation dtype; dout (R, C) in
void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost matmul_cost(ConstTensorView out, ConstTensorView a, ConstTensorView b,
                        MatmulOptions options = {}) {
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  Cost cost = moving_cost(0, {a, b}, {out});
  if (options.accumulate) cost += moving_cost(number_of(out.num_elements()), {out}, {});
  cost.product_flops = 2 * number_of(out.num_elements()) * number_of(k);
  cost.m = out.shape()[0], cost.n = out.shape()[1], cost.k = k;
  cost.transpose_b = options.transpose_b;
  return cost;
}
inline Cost add_bias_cost(ConstTensorView out, ConstTensorView bias) {
  return moving_cost(number_of(out.num_elements()), {out, bias}, {out});
}
inline Cost bias_backward_cost(ConstTensorView dbias, ConstTensorView dout) {
  return moving_cost(number_of(dout.num_elements()), {dbias, dout}, {dbias});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::matmul) matmul;
decltype(ladder::add_bias) add_bias;
decltype(ladder::bias_backward) bias_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::matmul) matmul;
decltype(ladder::add_bias) add_bias;
decltype(ladder::bias_backward) bias_backward;
decltype(ladder::set_tf32) set_tf32;
decltype(ladder::leave_multiprocessors) leave_multiprocessors;
}  // namespace cuda

inline void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                   MatmulOptions options) {
  const ArgumentCheck expect("matmul", stream, "a", a, 2, ArgumentCheck::kFloats, Rows::apart);
  const size_t m = a.shape()[options.transpose_a ? 1 : 0];
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  // `a` does not say how many columns the product has; b does.
  const size_t n = b.shape().num_dims() == 2 ? b.shape()[options.transpose_b ? 0 : 1] : 0;
  expect("b", b, options.transpose_b ? Shape{n, k} : Shape{k, n});
  expect("out", out, {a.dtype(), accumulation_dtype(a.dtype())}, {m, n});
  check(m > 0 && n > 0 && k > 0, "matmul: an extent is zero");
  run_body(expect, matmul_cost(out, a, b, options), cpu::matmul, cuda::matmul, stream, out, a, b,
           options);
}

inline void add_bias(Stream& stream, TensorView out, ConstTensorView bias) {
  const ArgumentCheck expect("add_bias", stream, "out", out, 2);
  expect("bias", bias, {out.shape()[1]});
  run_body(expect, add_bias_cost(out, bias), cpu::add_bias, cuda::add_bias, stream, out, bias);
}

inline void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout) {
  const ArgumentCheck expect("bias_backward", stream, "dout", dout, 2);
  expect.accumulated("dbias", dbias, {dout.shape()[1]});
  run_body(expect, bias_backward_cost(dbias, dout), cpu::bias_backward, cuda::bias_backward, stream,
           dbias, dout);
}

inline void set_tf32(bool on) { cuda::set_tf32(on); }
inline void leave_multiprocessors(size_t count) { cuda::leave_multiprocessors(count); }

}  // namespace ladder
