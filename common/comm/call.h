// The description of one communication call, which the ranks of a group compare with each other.
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
  uint32_t peer = 0;    // the root, as a rank of the group
  size_t elements = 0;  // elements of the full vector, not of this rank's part
  // Where a buffer lies if it is in memory that the ranks of a machine share (node_memory.h).
  struct Buffer {
    bool registered = false;
    uint32_t allocation = 0;
    size_t offset = 0;
  };
  // These may differ from rank to rank, so same_call() ignores them. An operation with one buffer
  // has it twice.
  Buffer in = {}, out = {};
};

// Returns true if two ranks call the same operation with the same dtype, reduction, root and number
// of elements.
bool same_call(const Call& a, const Call& b);

// Describes a call for messages, as in "all_reduce of 12 fp32".
std::string to_string(const Call& call);

// Throws an Error that says who calls what, unless `theirs` is the same call as `own`. `number` is
// the position of the call among the calls of the group, and `names` has the name of each rank of
// the group, such as "rank 3 on hostname".
void require_same_call(uint64_t number, const std::vector<std::string>& names, size_t own_rank,
                       const Call& own, size_t their_rank, const Call& theirs);

}  // namespace ladder
