// What the benchmark of collectives compares: our way, the memory's limit, MPI's way.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/comm/communicator.h"

namespace ladder {

// What one rank needs for them. `shared` is registered memory, which our collectives work on;
// private_bytes is as large, for the limit and for MPI.
struct CollectiveBench {
  Communicator& ranks;
  Stream& stream;
  TensorView shared, private_bytes;
};

// Three ways to do one operation on a vector of n elements. The limit has the same reads and
// writes, in private memory and in one pass: no collective can be faster.
struct Contest {
  std::string name;
  std::function<void(size_t n)> ours, limit, mpi;
  std::function<void(size_t n)> prepare = {};  // runs before ours, and is not timed
};

// Returns the contests of all operations, in the order in which they are printed: collectives, and
// an all_reduce in each format of the codecs, without error feedback and with it. `bench` must
// outlive them.
std::vector<Contest> contests(const CollectiveBench& bench);

}  // namespace ladder
