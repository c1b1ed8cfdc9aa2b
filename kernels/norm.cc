#include "kernels/norm.h"

#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {
namespace {

void check_sum(const char* kernel, const Stream& stream, const ConstTensorView& out,
               const ConstTensorView& workspace, const ConstTensorView& in) {
  const ArgumentCheck expect(kernel, stream, "in", in, 1, ArgumentCheck::kAccumulation);
  expect("out", out, DType::fp64, {1});
  const size_t needed = sum_workspace_elements(in.num_elements());
  const size_t given = workspace.shape().num_dims() == 1 ? workspace.shape()[0] : 0;
  expect("workspace", workspace, DType::fp64, {std::max(needed, given)});
}

}  // namespace

void squared_norm(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  check_sum("squared_norm", stream, out, workspace, in);
  if (stream.device() == DeviceType::cpu) return cpu::squared_norm(out, workspace, in);
  cuda::squared_norm(stream, out, workspace, in);
}

void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  check_sum("sum", stream, out, workspace, in);
  if (stream.device() == DeviceType::cpu) return cpu::sum(out, workspace, in);
  cuda::sum(stream, out, workspace, in);
}

}  // namespace ladder
