// How a kernel checks its arguments: against its first one, which fixes device, dtype and extents.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

class ArgumentCheck {
 public:
  // Checks the leading argument: not empty, on the stream's device, fp32 or fp64, and with
  // `num_dims` dimensions (0 = any).
  ArgumentCheck(const char* kernel, const Stream& stream, const char* argument,
                const ConstTensorView& view, size_t num_dims)
      : kernel_(kernel), device_(stream.device()), dtype_(view.dtype()) {
    if (dtype_ != DType::fp32 && dtype_ != DType::fp64) {
      fail(concat(kernel, ": argument `", argument, "` is ", name_of(dtype_),
                  ", expected fp32 or fp64"));
    }
    if (num_dims > 0 && !view.empty() && view.shape().num_dims() != num_dims) {
      fail(concat(kernel, ": argument `", argument, "` has shape ", to_string(view.shape()),
                  ", expected ", num_dims, " dimensions"));
    }
    check_argument(kernel, argument, view, device_, dtype_, view.shape());
  }

  // Another argument, of the same dtype.
  void operator()(const char* argument, const ConstTensorView& view, const Shape& shape) const {
    check_argument(kernel_, argument, view, device_, dtype_, shape);
  }
  // Another argument, of dtype `dtype`.
  void operator()(const char* argument, const ConstTensorView& view, DType dtype,
                  const Shape& shape) const {
    check_argument(kernel_, argument, view, device_, dtype, shape);
  }

 private:
  const char* kernel_;
  DeviceType device_;
  DType dtype_;
};

}  // namespace ladder
