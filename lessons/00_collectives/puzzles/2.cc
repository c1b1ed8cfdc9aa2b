// 00.2 Few rounds
//
// Each rank has a part of its own; the number of ranks is a power of two. In a round ranks form
// pairs, and the two of a pair send each other all that they have. 8 ranks have 3 rounds, 16 have
// 4: after these everybody must have all parts.
//
// Returns the partner of `rank` in `round`, counted from 0.
// Example: of 2 ranks, rank 0 has the partner 1, and rank 1 the partner 0.
int partner(int rank, int round, int ranks) {
  throw "not written yet";  // yours
}
