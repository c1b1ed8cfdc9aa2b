// 18.1 Merged
//
// A linear layer has a weight W of `in` rows and `out` columns, stored row by row: its output is
// x W. It also has an adapter: A of `r` rows and `in` columns, and B of `out` rows and `r` columns,
// stored row by row too. With the adapter the output is x W + scale (x A^T) B^T.
//
// Changes `w` so that x W alone is the output that the layer has with its adapter.
// Example: in 1, out 2, r 1, scale 2: W = 5 6, A = 3, B = 1 10 becomes W = 11 66.
#include <vector>

void merge(std::vector<int>& w, const std::vector<int>& a, const std::vector<int>& b, int in,
           int out, int r, int scale) {
  throw "not written yet";  // yours
}
