// Tensors own memory; views refer to it. Both are row-major, and have at most four dimensions. A
// tensor is contiguous, and so is a view, unless it was made by first_columns().
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "kernels/runtime/check.h"
#include "kernels/runtime/dtype.h"
#include "kernels/runtime/memory.h"
#include "kernels/runtime/shape.h"

namespace ladder {

// A view of a tensor, or of some of its elements: pointer, dtype, device, shape. It is cheap to
// copy, and the memory must outlive it. A TensorView may be written through and a ConstTensorView
// only read; the first converts to the second. A view made by the default constructor is empty: it
// stands for an argument that is absent.
template <class Void>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Void* data, DType dtype, DeviceType device, const Shape& shape)
      : data_(data), dtype_(dtype), device_(device), shape_(shape) {}
  // Converts a TensorView to a ConstTensorView.
  template <class Other>
  requires(std::is_const_v<Void> && !std::is_const_v<Other>)
      BasicView(const BasicView<Other>& other)
      : data_(other.data()),
        dtype_(other.dtype()),
        device_(other.device()),
        shape_(other.shape()),
        pitch_(other.is_contiguous() ? 0 : other.pitch()) {}

  bool empty() const { return data_ == nullptr; }
  Void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  DeviceType device() const { return device_; }
  const Shape& shape() const { return shape_; }
  size_t num_elements() const { return shape_.num_elements(); }
  size_t num_bytes() const { return num_elements() * size_of(dtype_); }
  bool is_contiguous() const { return pitch_ == 0; }
  // Returns the number of elements from the begin of one row to the begin of the next, where a row
  // is an index of the outermost dimension. REQUIRES: at least one dimension.
  size_t pitch() const {
    if (pitch_ != 0) return pitch_;
    return shape_[0] == 0 ? 0 : num_elements() / shape_[0];
  }

  // Returns the elements, for kernel bodies and for host memory. REQUIRES: T is the dtype's type.
  template <class T>
  auto as() const {
    check(dtype_of<T> == dtype_, "TensorView::as: another dtype");
    using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
    return static_cast<Element*>(data_);
  }

  // Returns the same elements with another shape. REQUIRES: the same number of elements, and that
  // they are contiguous.
  BasicView reshape(const Shape& shape) const {
    check(is_contiguous(), "TensorView::reshape: the rows lie apart");
    check(shape.num_elements() == num_elements(),
          "TensorView::reshape: another number of elements");
    return BasicView(data_, dtype_, device_, shape);
  }
  // Returns indices [first, first + count) of the outermost dimension.
  BasicView rows(size_t first, size_t count) const {
    check(shape_.num_dims() > 0 && first <= shape_[0] && count <= shape_[0] - first,
          "TensorView::rows: out of range");
    return view_at(first * pitch(), shape_.with_rows(count), pitch_);
  }
  // Returns columns [0, count) of a matrix. Its rows then lie apart, which only those kernels take
  // that say so.
  BasicView first_columns(size_t count) const {
    check(shape_.num_dims() == 2 && count <= shape_[1], "TensorView::first_columns: out of range");
    return view_at(0, {shape_[0], count}, count == pitch() ? 0 : pitch());
  }
  // Returns elements [first, first + shape.num_elements()) in storage order, with this shape.
  BasicView elements(size_t first, const Shape& shape) const {
    return reshape({num_elements()}).rows(first, shape.num_elements()).reshape(shape);
  }

 private:
  BasicView view_at(size_t first, const Shape& shape, size_t pitch) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    BasicView view(static_cast<Byte*>(data_) + first * size_of(dtype_), dtype_, device_, shape);
    view.pitch_ = pitch;
    return view;
  }

  Void* data_ = nullptr;
  DType dtype_ = DType::fp32;
  DeviceType device_ = DeviceType::cpu;
  Shape shape_;
  size_t pitch_ = 0;  // 0 if the view is contiguous
};

using TensorView = BasicView<void>;
using ConstTensorView = BasicView<const void>;

// A Tensor owns memory of an arena until it is destroyed. The memory is zero at first. Tensors can
// be moved; a moved-from tensor is empty.
class Tensor {
 public:
  Tensor() = default;
  // Allocates memory from `source`, or from the arena's own source if it is null. The arena
  // `memory` counts it in both cases. Throws OutOfMemory. Without elements there is no memory, and
  // the view is empty.
  Tensor(Memory& memory, Category category, DType dtype, const Shape& shape,
         MemorySource* source = nullptr);
  ~Tensor();
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;

  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }       // NOLINT: a tensor is used as its view
  operator ConstTensorView() const { return view_; }  // NOLINT
  const Shape& shape() const { return view_.shape(); }
  DType dtype() const { return view_.dtype(); }

 private:
  Memory* memory_ = nullptr;
  MemorySource* source_ = nullptr;
  Category category_ = Category::workspace;
  TensorView view_;
};

// Whether a kernel takes matrices whose rows lie apart.
enum class Rows { contiguous, apart };

// Throws an Error that names `kernel`, `argument` and what is wrong, unless the view is on `device`
// and has `dtype` and `shape`, and its rows lie as they may. Every kernel checks every argument
// with it.
void check_argument(const char* kernel, const char* argument, const ConstTensorView& view,
                    DeviceType device, DType dtype, const Shape& shape,
                    Rows rows = Rows::contiguous);

}  // namespace ladder
