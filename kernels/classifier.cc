#include "kernels/classifier.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void softmax_maximum(Stream& stream, TensorView maximum, ConstTensorView logits) {
  const ArgumentCheck expect("softmax_maximum", stream, "logits", logits, 2,
                             ArgumentCheck::kAccumulation);
  expect("maximum", maximum, {logits.shape()[0]});
  check(logits.shape()[1] > 0, "softmax_maximum: no columns");
  if (stream.device() == DeviceType::cpu) return cpu::softmax_maximum(maximum, logits);
  cuda::softmax_maximum(stream, maximum, logits);
}

void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                          TensorView target_logit, ConstTensorView targets, ConstTensorView maximum,
                          size_t first) {
  const ArgumentCheck expect("softmax_exponentials", stream, "logits", logits, 2,
                             ArgumentCheck::kAccumulation);
  const Shape rows = {logits.shape()[0]};
  expect("sum", sum, rows);
  expect("target_logit", target_logit, rows);
  expect("targets", targets, DType::int32, rows);
  expect("maximum", maximum, rows);
  if (stream.device() == DeviceType::cpu) {
    return cpu::softmax_exponentials(logits, sum, target_logit, targets, maximum, first);
  }
  cuda::softmax_exponentials(stream, logits, sum, target_logit, targets, maximum, first);
}

void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale) {
  const ArgumentCheck expect("cross_entropy", stream, "exponentials", exponentials, 2,
                             ArgumentCheck::kAccumulation);
  const Shape rows = {exponentials.shape()[0]};
  expect("losses", losses, rows);
  if (exponentials.dtype() == DType::fp32) {
    expect("dlogits", dlogits, {DType::fp32, DType::bf16, DType::fp16}, exponentials.shape());
  } else {
    expect("dlogits", dlogits, exponentials.shape());
  }
  expect("sum", sum, rows);
  expect("target_logit", target_logit, rows);
  expect("targets", targets, DType::int32, rows);
  if (stream.device() == DeviceType::cpu) {
    return cpu::cross_entropy(losses, dlogits, exponentials, sum, target_logit, targets, first,
                              loss_scale);
  }
  cuda::cross_entropy(stream, losses, dlogits, exponentials, sum, target_logit, targets, first,
                      loss_scale);
}

void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit) {
  const ArgumentCheck expect("cross_entropy_loss", stream, "losses", losses, 1,
                             ArgumentCheck::kAccumulation);
  expect("sum", sum, losses.shape());
  expect("target_logit", target_logit, losses.shape());
  if (stream.device() == DeviceType::cpu) return cpu::cross_entropy_loss(losses, sum, target_logit);
  cuda::cross_entropy_loss(stream, losses, sum, target_logit);
}

}  // namespace ladder
