// Some of the heads that lie side by side in a row: of a matrix with q, k and v, q's, or k's, or
// those of both.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// Heads [first, first + count).
struct HeadRange {
  size_t first = 0, count = 0;
};

// Throws an Error that names kernel and argument unless rows of so many columns have the heads.
inline void check_heads(const char* kernel, const char* argument, size_t columns, HeadRange heads,
                        size_t head_size) {
  const size_t num_heads = head_size == 0 ? 0 : columns / head_size;
  if (heads.first <= num_heads && heads.count <= num_heads - heads.first) return;
  fail(concat(kernel, ": argument `", argument, "` has ", columns, " columns, fewer than heads ",
              heads.first, " to ", heads.first + heads.count, " of ", head_size));
}

}  // namespace ladder
