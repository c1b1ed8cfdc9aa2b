// How ranks split the rows of a micro-batch.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ladder {

// Each of N ranks has n = ceil(R / N) consecutive rows of R, except the last ranks, which may have
// fewer or none. Collectives move equally many rows of every rank, so a buffer that ranks gather or
// scatter is padded to N n rows. Nothing but collectives reads or writes the padding.
struct RowSplit {
  size_t rank = 0, size = 1;

  size_t most(size_t rows) const { return (rows + size - 1) / size; }  // n
  size_t padded(size_t rows) const { return size * most(rows); }
  // The first row of this rank, and how many rows it has.
  size_t first(size_t rows) const { return std::min(rows, rank * most(rows)); }
  size_t count(size_t rows) const { return std::min(most(rows), rows - first(rows)); }
};

}  // namespace ladder
