// How kernels are given wrong arguments, one after the other.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tests/kernels/support.h"

namespace ladder::testing {

using Views = std::vector<TensorView>;

// The dtype of an argument where that of the leading one is x.
enum class Kind {
  x,       // the same
  sum,     // x's accumulation dtype
  either,  // one of these two
  any,     // any floating-point one
  int32,
  fp64,
};

struct Argument {
  const char* name;
  Shape shape;
  Kind kind = Kind::x;
  bool last_is_free = false;  // no other argument depends on the last extent
  bool may_be_empty = false;
};

struct Kernel {
  const char* name;
  std::vector<Argument> arguments;
  size_t first;    // the argument that fixes dtype and extents of the others
  bool any_shape;  // so that a wrong shape of `first` is blamed on another
  std::function<void(const Views&)> call;
  bool has_low_precision = true;  // may x be bf16 or fp16?
};

// Every kernel refuses every wrong argument by name: one that is missing, or has another device,
// dtype or shape.
void require_refusals(std::span<const Kernel> kernels);

}  // namespace ladder::testing
