// The staging area: the memory that receives what other ranks send to a sum, where ranks share no
// memory.
#pragma once

#include <algorithm>
#include <cstddef>

#include "common/comm/ledger.h"

namespace ladder {

// The largest number of elements in one message. A larger vector travels in segments, one after the
// other, through the same staging area.
inline constexpr size_t kSegmentElements = size_t{1} << 20;

// Returns the elements of the staging area that a rank needs for a call among N = `size` ranks. The
// full vector has n = `elements` elements and travels in segments of at most P = `segment`
// elements. The area holds what every rank sends of one segment:
//   all_reduce        N ceil(min(n, P) / N)
//   reduce_scatter    N min(n / N, P / N)
//   reduce            N min(n, P / N), on the root
// Operations that do not sum receive data where it belongs, and need none.
constexpr size_t staging_elements(Collective collective, size_t size, size_t elements,
                                  size_t segment = kSegmentElements) {
  if (size == 1) return 0;
  switch (collective) {
    case Collective::all_reduce:
      return (std::min(elements, segment) + size - 1) / size * size;
    case Collective::reduce_scatter:
      return std::min(elements / size, std::max<size_t>(segment / size, 1)) * size;
    case Collective::reduce:
      return std::min(elements, std::max<size_t>(segment / size, 1)) * size;
    default:
      return 0;
  }
}

// Returns what is enough for every call: `segment` rounded up to a multiple of `size`.
constexpr size_t most_staging_elements(size_t size, size_t segment = kSegmentElements) {
  return (segment + size - 1) / size * size;
}

}  // namespace ladder
