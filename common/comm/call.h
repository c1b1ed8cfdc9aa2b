// A call of an operation between ranks, as the ranks compare it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/comm/ledger.h"
#include "kernels/collective.h"
#include "kernels/runtime/dtype.h"

namespace ladder {

// What one rank calls.
struct Call {
  Collective collective = Collective::barrier;
  DType dtype = DType::fp32;
  Reduction reduction = Reduction::sum;
  size_t peer = 0;      // the root, a rank of the group
  size_t elements = 0;  // of the full vector
  // Where the buffer lies in memory that the ranks of a machine share (node_memory.h). This may
  // differ from rank to rank.
  bool registered = false;
  size_t allocation = 0, offset = 0;
};

// Do two ranks call the same operation on the same number of elements?
bool same_call(const Call& a, const Call& b);

// "all_reduce of 12 fp32"
std::string to_string(const Call& call);

// Throws Error, which says who calls what, unless `theirs` is the same call as `own`. `number`
// counts the calls of the group; `names` are "rank 3 on hostname" for each rank of the group.
void require_same_call(uint64_t number, const std::vector<std::string>& names, size_t own_rank,
                       const Call& own, size_t their_rank, const Call& theirs);

}  // namespace ladder
