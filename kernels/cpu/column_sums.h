// Sums over the rows of a matrix, one for each column: the gradients of biases and of norms'
// weights. A thread sums some of the columns over all rows, so none waits for another's sums.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ladder::cpu {

// Adds to out[s][first + i], unless out[s] is null, the sum over all rows for each column i <
// width. add_row(sums, r) adds what row r has to sums[s][i]. REQUIRES: width <= kColumns.
template <size_t kColumns, size_t kSums, class A, class AddRow>
void add_column_sums(A* const (&out)[kSums], size_t first, size_t width, size_t rows,
                     AddRow add_row) {
  constexpr size_t kRows = 64;  // rows are summed in groups, so that rounding errors grow slowly
  A total[kSums][kColumns] = {};
  for (size_t r0 = 0; r0 < rows; r0 += kRows) {
    A group[kSums][kColumns] = {};
    for (size_t r = r0; r < std::min(rows, r0 + kRows); ++r) add_row(group, r);
    for (size_t s = 0; s < kSums; ++s) {
      for (size_t i = 0; i < width; ++i) total[s][i] += group[s][i];
    }
  }
  for (size_t s = 0; s < kSums; ++s) {
    if (out[s] == nullptr) continue;
    for (size_t i = 0; i < width; ++i) out[s][first + i] += total[s][i];
  }
}

}  // namespace ladder::cpu
