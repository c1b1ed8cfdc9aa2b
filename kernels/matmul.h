// Matrix products.
//
// Letters in all kernel headers: B sequences, T tokens in a sequence, C hidden size, NH heads,
// HS = C / NH head size, V vocabulary size; R rows (usually B * T). Shapes are (outermost, ...).
// Every kernel is asynchronous on its stream, allocates nothing, and checks device, dtype and shape
// of each argument: a wrong one throws Error naming it. Arguments must not overlap unless a line
// says they may.
//
// "x" is the dtype of floating-point arguments: fp32, fp64, bf16 or fp16, the same for all of them
// unless a line says otherwise. "a" is the dtype that is computed in: fp32 for bf16 and fp16, else
// x itself. Elements of x are widened to a, which is exact, and a result is rounded to x once, when
// it is stored. What is summed over rows, and what backward needs to full precision, is of a.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

struct MatmulOptions {
  bool transpose_a = false;  // use a^T: a is stored (K, M)
  bool transpose_b = false;  // use b^T: b is stored (N, K)
  bool accumulate = false;   // add to out instead of overwriting it
};

// out (M, N) = op(a) (M, K) op(b) (K, N), or += with accumulate.
//   a, b x; out x or a
//
// The products of a linear layer out = in W + bias with W (in, out), for R rows:
//   forward          out  = matmul(in, W)
//   input gradient   din  = matmul(dout, W, {.transpose_b = true})
//   weight gradient  dW  += matmul(in, dout, {.transpose_a = true, .accumulate = true})
// Each element is summed over k in an order that depends on the shapes and, in fp32 and bf16, on
// the number of threads, never on the run.
// On the CPU fp32 products are oneDNN's, and so are those of bf16 where the CPU multiplies it
// (AVX512_BF16; numbers below 2^-126 count as zero): their bits may differ between machines. All
// others have the same bits everywhere: our own loop, which widens what it loads.
// On a GPU products are cuBLAS', in bf16 and fp16 by the tensor cores, and summed in fp32
// throughout, also where it splits the sum. The emulator's are the CPU's. On a GPU the first
// product of a thread on a stream makes a handle of cuBLAS and 32 MiB for it to work in, which no
// category of memory counts.
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options = {});

// May fp32 products on a GPU use its tensor cores from here on, in all threads? Factors are then
// rounded to TF32's 11 significant bits, 24 before (a relative error of 2^-11 each, 2^-24 before),
// while products and sums stay fp32: several times as fast, and not what the equivalence of lessons
// is tested with. Off until it is asked for. Changes nothing in fp64 and on other devices.
void set_tf32(bool on);

// out (R, C) += bias (C), to each row. x
void add_bias(Stream& stream, TensorView out, ConstTensorView bias);

// dbias (C) += sum over rows of dout (R, C), in an order that is independent of the threads.
//   dout x; dbias a
void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout);

// Costs (kernel.h).
inline Cost matmul_cost(ConstTensorView out, ConstTensorView a, ConstTensorView b,
                        MatmulOptions options = {}) {
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  Cost cost = moving_cost(0, {a, b}, {out});
  if (options.accumulate) cost += moving_cost(number_of(out.num_elements()), {out}, {});
  cost.product_flops = 2 * number_of(out.num_elements()) * number_of(k);
  return cost;
}
inline Cost add_bias_cost(ConstTensorView out, ConstTensorView bias) {
  return moving_cost(number_of(out.num_elements()), {out, bias}, {out});
}
inline Cost bias_backward_cost(ConstTensorView dbias, ConstTensorView dout) {
  return moving_cost(number_of(dout.num_elements()), {dbias, dout}, {dbias});
}

// Bodies, and entries that check what these are given.
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
}  // namespace cuda

inline void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                   MatmulOptions options) {
  const ArgumentCheck expect("matmul", stream, "a", a, 2);
  const size_t m = a.shape()[options.transpose_a ? 1 : 0];
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  // b has one free extent, the columns of the product; what b says of it binds out.
  const size_t n = b.shape().num_dims() == 2 ? b.shape()[options.transpose_b ? 0 : 1] : 0;
  expect("b", b, options.transpose_b ? Shape{n, k} : Shape{k, n});
  expect("out", out, {a.dtype(), accumulation_dtype(a.dtype())}, {m, n});
  check(m > 0 && n > 0 && k > 0, "matmul: an extent is zero");
  run_body(cpu::matmul, cuda::matmul, stream, out, a, b, options);
}

inline void add_bias(Stream& stream, TensorView out, ConstTensorView bias) {
  const ArgumentCheck expect("add_bias", stream, "out", out, 2);
  expect("bias", bias, {out.shape()[1]});
  run_body(cpu::add_bias, cuda::add_bias, stream, out, bias);
}

inline void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout) {
  const ArgumentCheck expect("bias_backward", stream, "dout", dout, 2);
  expect.accumulated("dbias", dbias, {dout.shape()[1]});
  run_body(cpu::bias_backward, cuda::bias_backward, stream, dbias, dout);
}

inline void set_tf32(bool on) { cuda::set_tf32(on); }

}  // namespace ladder
