// How ranks split the rows of a micro-batch.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ladder {

// Each of N ranks has ceil(R / N) consecutive ones of R rows, in rank order; the last ranks may
// have fewer. Collectives move equally many rows of every rank, so a buffer that ranks gather or
// scatter is padded to N ceil(R / N) rows. Nothing but collectives reads or writes the padding.
struct RowSplit {
  size_t rank = 0, size = 1;

  size_t most(size_t rows) const { return (rows + size - 1) / size; }
  size_t padded(size_t rows) const { return size * most(rows); }
  // The first row of this rank, and how many it has.
  size_t first(size_t rows) const { return std::min(rows, rank * most(rows)); }
  size_t count(size_t rows) const { return std::min(most(rows), rows - first(rows)); }
};

}  // namespace ladder
