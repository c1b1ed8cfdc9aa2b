// 00.1 Pass it on
//
// Ranks stand in a ring, and rank r has part r of a vector. In each of `ranks` - 1 rounds every
// rank sends one part to the next rank (the last one to rank 0), while it receives one from the
// rank before. It can send only what it had before the round. In the end all ranks must have all
// parts.
//
// Returns the part that `rank` sends in `round`, counted from 0.
// Example: of 3 ranks, rank 1 sends part 1 in round 0, and part 0 in round 1.
// (In C++ -1 % 3 is -1, and not 2.)
int sent_part(int rank, int round, int ranks) {
  throw "not written yet";  // yours
}
