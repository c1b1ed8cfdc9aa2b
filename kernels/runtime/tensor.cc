#include "kernels/runtime/tensor.h"

#include <limits>
#include <utility>

namespace ladder {
namespace {

// Returns the bytes of a tensor. If the product does not fit into size_t, it returns more than any
// machine has.
size_t bytes_of(DType dtype, const Shape& shape) {
  size_t bytes = size_of(dtype);
  for (size_t dim = 0; dim < shape.num_dims(); ++dim) {
    if (shape[dim] == 0) return 0;
    if (bytes > std::numeric_limits<size_t>::max() / shape[dim]) {
      bytes = std::numeric_limits<size_t>::max();
    } else {
      bytes *= shape[dim];
    }
  }
  return bytes;
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t dim = 0; dim < shape.num_dims(); ++dim) {
    text += concat(dim == 0 ? "" : ", ", shape[dim]);
  }
  return text + ")";
}

Tensor::Tensor(Memory& memory, Category category, DType dtype, const Shape& shape,
               MemorySource* source)
    : source_(source), category_(category) {
  const size_t bytes = bytes_of(dtype, shape);
  if (bytes > 0) memory_ = &memory;
  if (bytes == 0 && source != nullptr) source->allocate_nothing();
  view_ = TensorView(bytes > 0 ? memory.allocate(category, bytes, source) : nullptr, dtype,
                     memory.device(), shape);
}

Tensor::~Tensor() {
  if (memory_ != nullptr) {
    memory_->release(view_.data(), category_, view_.num_bytes(), source_);
  }
}

Tensor::Tensor(Tensor&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      source_(other.source_),
      category_(other.category_),
      view_(std::exchange(other.view_, {})) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  Tensor taken(std::move(other));  // after the swaps it frees what this tensor held
  std::swap(memory_, taken.memory_);
  std::swap(source_, taken.source_);
  std::swap(category_, taken.category_);
  std::swap(view_, taken.view_);
  return *this;
}

void check_argument(const char* kernel, const char* argument, const ConstTensorView& view,
                    DeviceType device, DType dtype, const Shape& shape, Rows rows) {
  const auto wrong = [&](const std::string& what) {
    throw Error(concat(kernel, ": argument `", argument, "` ", what));
  };
  if (view.empty()) wrong("is empty");
  if (view.device() != device) {
    wrong(concat("is on ", name_of(view.device()), ", expected ", name_of(device)));
  }
  if (view.dtype() != dtype) {
    wrong(concat("is ", name_of(view.dtype()), ", expected ", name_of(dtype)));
  }
  if (view.shape() != shape) {
    wrong(concat("has shape ", to_string(view.shape()), ", expected ", to_string(shape)));
  }
  if (rows == Rows::contiguous && !view.is_contiguous()) {
    wrong("has rows that lie apart, which this kernel does not take");
  }
}

}  // namespace ladder
