#include "common/model/linear.h"

#include "kernels/fused_matmul.h"
#include "kernels/matmul.h"

namespace ladder {

void linear_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView weight,
                    ConstTensorView bias, bool out_first) {
  if (bias.empty()) return matmul(stream, out, in, weight, {.transpose_b = out_first});
  matmul_bias(stream, out, in, weight, bias, out_first);
}

void linear_backward_input(Stream& stream, TensorView din, ConstTensorView dout,
                           ConstTensorView weight, bool out_first) {
  matmul(stream, din, dout, weight, {.transpose_b = !out_first});
}

void linear_backward_weight(Stream& stream, TensorView dweight, TensorView dbias,
                            ConstTensorView dout, ConstTensorView in, bool out_first) {
  if (!dbias.empty()) bias_backward(stream, dbias, dout);
  if (dweight.empty()) return;
  matmul(stream, dweight, out_first ? dout : in, out_first ? in : dout,
         {.transpose_a = true, .accumulate = true});
}

}  // namespace ladder
