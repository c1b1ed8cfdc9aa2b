#include "kernels/fused_matmul.h"

#include "kernels/gelu.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"

namespace ladder::cpu {

void matmul_bias(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                 ConstTensorView bias, bool transpose_b) {
  cpu::matmul(stream, out, a, b, {.transpose_b = transpose_b});
  cpu::add_bias(stream, out, bias);
}

void matmul_bias_gelu(Stream& stream, TensorView out, TensorView before, ConstTensorView a,
                      ConstTensorView b, ConstTensorView bias) {
  cpu::matmul_bias(stream, before, a, b, bias, false);
  cpu::gelu_forward(stream, out, before);
}

void matmul_residual(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
                     ConstTensorView bias, ConstTensorView residual, bool transpose_b) {
  cpu::matmul(stream, out, a, b, {.transpose_b = transpose_b});
  cpu::add_residual(stream, out, residual, out, bias);
}

void matmul_gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView b,
                          ConstTensorView before) {
  cpu::matmul(stream, din, dout, b, {.transpose_b = true});
  cpu::gelu_backward(stream, din, din, before);
}

}  // namespace ladder::cpu
