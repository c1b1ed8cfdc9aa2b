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

#include "kernels/runtime/stream.h"

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

}  // namespace ladder
