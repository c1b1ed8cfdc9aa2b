// Slices of the vocabulary: a tensor-parallel rank has tokens [first, first + size).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/runtime/target.h"

namespace ladder {

// Returns the index of `token` in the slice, or `size` if another rank has it. (It is constexpr so
// that device code may call it.)
constexpr size_t index_in_slice(int32_t token, size_t first, size_t size) {
  const size_t index = static_cast<size_t>(token) - first;  // wraps around if token < first
  return index < size ? index : size;
}

}  // namespace ladder
