// 18.2 Who has what
//
// `ranks` tensor-parallel ranks split a linear layer: its outputs, or its inputs. They divide them
// evenly. The layer has an adapter: h = x A^T, and h B^T is added to the output. A has `r` rows and
// `in` columns, B has `out` rows and `r` columns.
//
// Ranks that split the outputs all have the whole x, and each computes its own outputs. Ranks that
// split the inputs have a part of x each, and each computes a term of every output. In both cases a
// rank holds those numbers of A and B that it needs. Numbers that several ranks hold have gradients
// that must be summed over the ranks, or the copies would become different.
//
// Returns how many numbers of the adapter more than one rank holds.
// Example: in 4, out 6, r 1, 2 ranks that split the outputs: both hold all 4 numbers of A, and 3 of
// B each. So it is 4.
int copied_numbers(int in, int out, int r, int ranks, bool split_outputs) {
  throw "not written yet";  // yours
}
