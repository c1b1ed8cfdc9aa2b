// 00.3 Everybody meets everybody
//
// Every rank wants to exchange something with every other one. In a round a rank meets one peer,
// who meets it. There are as many rounds as ranks, and in one of them a rank meets nobody. There
// may be any number of ranks, also an odd one.
//
// Returns the peer of `rank` in `round`, counted from 0; `rank` itself if it meets nobody.
// Example: of 3 ranks, 0 and 1 may meet in round 1. Then rank 2 meets nobody in this round.
int peer(int rank, int round, int ranks) {
  throw "not written yet";  // yours
}
