// How a kernel checks its arguments. The leading argument decides dtype and extents, and the others
// must fit it.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/runtime/stream.h"

namespace ladder {

// An ArgumentCheck has checked the leading argument and checks the others. A wrong argument is an
// Error that names kernel and argument.
class ArgumentCheck {
 public:
  static constexpr std::initializer_list<DType> kFloats = {DType::fp32, DType::fp64, DType::bf16,
                                                           DType::fp16};
  static constexpr std::initializer_list<DType> kAccumulation = {DType::fp32, DType::fp64};

  // Checks the leading argument. It must not be empty, and must be on the stream's device, have one
  // of `dtypes`, and have `num_dims` dimensions (0 = any number).
  // `rows` holds for all arguments.
  ArgumentCheck(const char* kernel, const Stream& stream, const char* argument,
                const ConstTensorView& view, size_t num_dims,
                std::initializer_list<DType> dtypes = kFloats, Rows rows = Rows::contiguous)
      : kernel_(kernel), device_(stream.device()), dtype_(view.dtype()), rows_(rows) {
    (*this)(argument, view, dtypes, view.shape());
    if (num_dims > 0 && view.shape().num_dims() != num_dims) {
      fail(concat(kernel, ": argument `", argument, "` has shape ", to_string(view.shape()),
                  ", expected ", num_dims, " dimensions"));
    }
  }

  // Checks another argument, which must have the dtype of the leading one.
  void operator()(const char* argument, const ConstTensorView& view, const Shape& shape) const {
    check_argument(kernel_, argument, view, device_, dtype_, shape, rows_);
  }
  // Checks another argument, which must have the accumulation dtype.
  void accumulated(const char* argument, const ConstTensorView& view, const Shape& shape) const {
    check_argument(kernel_, argument, view, device_, accumulation_dtype(dtype_), shape, rows_);
  }
  // Checks another argument, which must have the dtype `dtype`.
  void operator()(const char* argument, const ConstTensorView& view, DType dtype,
                  const Shape& shape) const {
    check_argument(kernel_, argument, view, device_, dtype, shape, rows_);
  }
  // Checks another argument, which must have one of `dtypes`.
  void operator()(const char* argument, const ConstTensorView& view,
                  std::initializer_list<DType> dtypes, const Shape& shape) const {
    const bool listed = std::find(dtypes.begin(), dtypes.end(), view.dtype()) != dtypes.end();
    if (!listed && !view.empty()) fail_dtype(argument, view.dtype(), dtypes);
    check_argument(kernel_, argument, view, device_, view.dtype(), shape, rows_);
  }

  const char* kernel() const { return kernel_; }
  // The dtype of the leading argument.
  DType dtype() const { return dtype_; }

 private:
  [[noreturn]] void fail_dtype(const char* argument, DType dtype,
                               std::initializer_list<DType> expected) const {
    std::string list;
    for (DType one : expected) list += concat(list.empty() ? "" : " or ", name_of(one));
    fail(concat(kernel_, ": argument `", argument, "` is ", name_of(dtype), ", expected ", list));
  }

  const char* kernel_;
  DeviceType device_;
  DType dtype_;
  Rows rows_;
};

}  // namespace ladder
