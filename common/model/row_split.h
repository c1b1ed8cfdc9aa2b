// How ranks split the rows of a micro-batch.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ladder {

// The rows are cut into chunks (usually one), and each chunk into N equal pieces: rank r has piece
// r of every chunk. With two chunks and N = 2 ranks the pieces of the micro-batch belong to ranks
//   0 1 | 0 1
// All pieces have n = ceil(R / (chunks N)) of R rows, except the last ones, which may have fewer or
// none. Collectives move equally many rows of every rank, so a buffer that ranks gather or scatter
// is padded to chunks N n rows. Nothing but collectives reads or writes the padding.
struct RowSplit {
  size_t rank = 0, size = 1, chunks = 1;

  // The rows of a piece, n.
  size_t piece(size_t rows) const { return (rows + chunks * size - 1) / (chunks * size); }
  size_t most(size_t rows) const { return chunks * piece(rows); }
  size_t padded(size_t rows) const { return size * most(rows); }
  // The first row of this rank's piece of a chunk, and how many rows the piece has.
  size_t first(size_t rows, size_t chunk = 0) const {
    return std::min(rows, (chunk * size + rank) * piece(rows));
  }
  size_t count_in(size_t rows, size_t chunk) const {
    return std::min(piece(rows), rows - first(rows, chunk));
  }
  // How many rows this rank has.
  size_t count(size_t rows) const {
    size_t sum = 0;
    for (size_t chunk = 0; chunk < chunks; ++chunk) sum += count_in(rows, chunk);
    return sum;
  }
};

// Consecutive rows that are multiplied together, while others are on their way between ranks.
struct RowChunk {
  size_t first = 0, count = 0;

  // Returns these rows of the tensor, which has all rows of a micro-batch.
  template <class View>
  View of(View all) const {
    return all.rows(first, count);
  }
};

}  // namespace ladder
