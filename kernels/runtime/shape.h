// The shape of a tensor.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "kernels/runtime/check.h"

namespace ladder {

// The extents of a tensor, outermost first. Shape{} has no dimension and one element.
class Shape {
 public:
  static constexpr size_t kMaxDims = 4;

  Shape() = default;
  Shape(std::initializer_list<size_t> extents) {
    check(extents.size() <= kMaxDims, "Shape: more than four dimensions");
    for (size_t extent : extents) extents_[num_dims_++] = extent;
  }

  size_t num_dims() const { return num_dims_; }
  size_t operator[](size_t dim) const { return extents_[dim]; }
  size_t num_elements() const {
    size_t product = 1;
    for (size_t dim = 0; dim < num_dims_; ++dim) product *= extents_[dim];
    return product;
  }
  // Returns this shape with another extent in the outermost dimension. REQUIRES: num_dims() >= 1.
  Shape with_rows(size_t rows) const {
    Shape result = *this;
    result.extents_[0] = rows;
    return result;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  size_t num_dims_ = 0;
  std::array<size_t, kMaxDims> extents_{};
};

// Writes a shape as in "(3, 4)".
std::string to_string(const Shape& shape);

}  // namespace ladder
