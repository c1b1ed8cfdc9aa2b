#include "common/model/linear.h"

#include "kernels/fused_matmul.h"
#include "kernels/matmul.h"

namespace ladder {

void linear_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView weight,
                    ConstTensorView bias) {
  if (bias.empty()) return matmul(stream, out, in, weight);
  matmul_bias(stream, out, in, weight, bias);
}

void linear_backward_input(Stream& stream, TensorView din, ConstTensorView dout,
                           ConstTensorView weight) {
  matmul(stream, din, dout, weight, {.transpose_b = true});
}

void linear_backward_weight(Stream& stream, TensorView dweight, TensorView dbias,
                            ConstTensorView dout, ConstTensorView in) {
  if (!dbias.empty()) bias_backward(stream, dbias, dout);
  if (dweight.empty()) return;
  matmul(stream, dweight, in, dout, {.transpose_a = true, .accumulate = true});
}

}  // namespace ladder
