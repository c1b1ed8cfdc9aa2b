// Matrix products.
//
// Letters in all kernel headers: B sequences, T tokens in a sequence, C hidden size, NH heads,
// HS = C / NH head size, V vocabulary size; R rows (usually B * T). Shapes are (outermost, ...).
// Every kernel is asynchronous on its stream, allocates nothing, and checks device, dtype and shape
// of each argument: a wrong one throws Error naming it. "x" below is fp32 or fp64, the same for all
// floating-point arguments unless a line says otherwise. Arguments must not overlap unless a line
// says they may.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

struct MatmulOptions {
  bool transpose_a = false;  // use a^T: a is stored (K, M)
  bool transpose_b = false;  // use b^T: b is stored (N, K)
  bool accumulate = false;   // add to out instead of overwriting it
};

// out (M, N) = op(a) (M, K) op(b) (K, N), or += with accumulate.
//
// The products of a linear layer out = in W + bias with W (in, out), for R rows:
//   forward          out  = matmul(in, W)
//   input gradient   din  = matmul(dout, W, {.transpose_b = true})
//   weight gradient  dW  += matmul(in, dout, {.transpose_a = true, .accumulate = true})
// Each element is summed over k in an order that depends on the shapes and, in fp32, on the number
// of threads, never on the run. On a GPU the first product of a thread on a stream makes a handle of
// cuBLAS and 32 MiB for it to work in, which no category of memory counts.
void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options = {});

// May fp32 products on a GPU use its tensor cores from here on, in all threads? Factors are then
// rounded to TF32's 11 significant bits, 24 before (a relative error of 2^-11 each, 2^-24 before),
// while products and sums stay fp32: several times as fast, and not what the equivalence of lessons
// is tested with. Off until it is asked for. Changes nothing in fp64 and on other devices.
void set_tf32(bool on);

// out (R, C) += bias (C), to each row.
void add_bias(Stream& stream, TensorView out, ConstTensorView bias);

// dbias (C) += sum over rows of dout (R, C), in an order that is independent of the threads.
void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout);

}  // namespace ladder
