// 07.1 Whole heads
//
// A matrix has 3 `hidden` columns: the queries of all heads, one head after the other, then the
// keys of all heads, then the values. Each of `ranks` ranks gets the queries, keys and values of
// its heads: rank 0 the first ones, and so on, equally many each. It stores its columns in the
// order of the matrix, without gaps.
//
// Returns the number in the matrix of column `i` of `rank`, counted from 0.
// Example: hidden 4, 2 ranks: rank 1 has columns 2 3, 6 7, 10 11. So its column 2 is 6.
int column(int i, int rank, int ranks, int hidden) {
  throw "not written yet";  // yours
}
