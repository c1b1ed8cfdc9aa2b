// The area through which sums go where ranks share no memory.
#pragma once

#include <algorithm>
#include <cstddef>

#include "common/comm/ledger.h"

namespace ladder {

// Elements in one message: what is larger travels in pieces, one after the other, through the same
// staging area.
inline constexpr size_t kPieceElements = size_t{1} << 20;

// Elements of the staging area that a rank needs for a call of `elements` elements (of the full
// vector) among N ranks, in pieces of at most P: what it receives of a piece from every rank.
//   all_reduce N ceil(min(n, P) / N); reduce_scatter N min(n / N, P / N); reduce (on root)
//   N min(n, P / N)
// What adds nothing up is received where it belongs: 0.
constexpr size_t staging_elements(Collective collective, size_t size, size_t elements,
                                  size_t piece = kPieceElements) {
  if (size == 1) return 0;
  switch (collective) {
    case Collective::all_reduce:
      return (std::min(elements, piece) + size - 1) / size * size;
    case Collective::reduce_scatter:
      return std::min(elements / size, std::max<size_t>(piece / size, 1)) * size;
    case Collective::reduce:
      return std::min(elements, std::max<size_t>(piece / size, 1)) * size;
    default:
      return 0;
  }
}

// Enough for every call: P rounded up to a multiple of N.
constexpr size_t most_staging_elements(size_t size, size_t piece = kPieceElements) {
  return (piece + size - 1) / size * size;
}

}  // namespace ladder
