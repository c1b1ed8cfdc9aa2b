// 14.2 Fair shares
//
// A sequence of tokens is cut into 2 `ranks` equal slices, and each rank gets two of them. The
// query of token t sees the keys of tokens 0 to t, so a rank computes t + 1 pairs for it. All ranks
// must have equally many pairs.
//
// Returns the rank that has a token. 2 `ranks` divides `tokens`.
// Example: 8 tokens, 2 ranks: slices of 2 tokens. Each rank has 18 of the 36 pairs.
int rank_of(int token, int tokens, int ranks) {
  throw "not written yet";  // yours
}
