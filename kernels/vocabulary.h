// A slice of the vocabulary: one of several ranks may hold [first, first + size) of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ladder {

// Where `token` lies in the slice, or `size` if another rank holds it. (constexpr, so that device
// code may call it.)
constexpr size_t index_in_slice(int32_t token, size_t first, size_t size) {
  const size_t index = static_cast<size_t>(token) - first;  // what is below `first` wraps around
  return index < size ? index : size;
}

}  // namespace ladder
