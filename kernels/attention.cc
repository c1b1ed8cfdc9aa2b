#include "kernels/attention.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {
namespace {

// (B, NH, T) for tensors of shape (B, T, C), with NH as `logsumexp` has it. A wrong NH is refused.
Shape row_shape(const char* kernel, const Shape& out, const ConstTensorView& logsumexp) {
  const Shape& l = logsumexp.shape();
  const size_t num_heads = l.num_dims() == 3 ? l[1] : 1;
  if (num_heads == 0 || out[2] % num_heads != 0) {
    fail(concat(kernel, ": argument `logsumexp` has shape ", to_string(l), ": ", num_heads,
                " heads do not divide the hidden size ", out[2]));
  }
  return {out[0], num_heads, out[1]};
}

}  // namespace

void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv) {
  const ArgumentCheck expect("attention_forward", stream, "out", out, 3);
  const Shape& shape = out.shape();
  expect.accumulated("logsumexp", logsumexp, row_shape("attention_forward", shape, logsumexp));
  expect("qkv", qkv, {shape[0], shape[1], 3 * shape[2]});
  if (stream.device() == DeviceType::cpu) return cpu::attention_forward(out, logsumexp, qkv);
  cuda::attention_forward(stream, out, logsumexp, qkv);
}

void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv) {
  const ArgumentCheck expect("attention_backward", stream, "out", out, 3);
  const Shape& shape = out.shape();
  const Shape rows = row_shape("attention_backward", shape, logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  expect("dqkv", dqkv, {shape[0], shape[1], 3 * shape[2]});
  expect("dout", dout, shape);
  expect("qkv", qkv, {shape[0], shape[1], 3 * shape[2]});
  if (stream.device() == DeviceType::cpu) {
    return cpu::attention_backward(dqkv, row_dot, dout, out, logsumexp, qkv);
  }
  cuda::attention_backward(stream, dqkv, row_dot, dout, out, logsumexp, qkv);
}

}  // namespace ladder
