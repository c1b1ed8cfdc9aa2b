// 17.1 What to read
//
// A file has `stored_count` elements of a tensor: those from `stored_first` on, without a gap. A
// rank wants `wanted_count` elements from `wanted_first` on. (Both count in the whole tensor.)
//
// Returns {from, to, count}: the rank reads `count` elements of the file from element `from` on,
// which go to its memory from element `to` on. {0, 0, 0} if there is nothing to read.
// Example: stored 6 to 8, wanted 4 to 7: elements 6 and 7, so {0, 2, 2}.
#include <algorithm>
#include <array>

std::array<int, 3> overlap(int stored_first, int stored_count, int wanted_first, int wanted_count) {
  throw "not written yet";  // yours
}
