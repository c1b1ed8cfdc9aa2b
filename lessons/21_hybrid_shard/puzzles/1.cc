// 21.1 Who are my replicas?
//
// `ranks` ranks stand in a row. Every `shard_size` neighbours share one copy of the model: the
// first of them keeps the first part, and so on. Ranks of different copies that keep the same part
// sum their gradients.
//
// Returns the ranks with which `rank` sums them, itself included, in increasing order.
// Example: 6 ranks, shard_size 2, rank 3: 1, 3 and 5.
#include <vector>

std::vector<int> replicas_of(int rank, int ranks, int shard_size) {
  throw "not written yet";  // yours
}
