// Recomputation: which of a transformer block's activations forward keeps for backward, and which
// backward computes again. [Chen16 section 4; Korthikanti22 section 5]
#pragma once

#include <string>
#include <vector>

#include "common/model/sublayer.h"

namespace ladder {

// The user's choice, by its name.
//   none       Everything is kept.
//   cheap      The outputs of layernorms and of GELU are dropped.
//   attention  q, k, v and attention's output are dropped.
//   mlp        The inner layer is dropped, before GELU and after it.
//   block      Everything but the block's input is dropped.
//   whole      The same; and backward runs all of the block's forward again, its last step too. So
//              does a program that runs forward again without a look inside, such as PyTorch's
//              torch.utils.checkpoint. It needs no operation's result but those that are dropped.
//   every-K    Everything but the input of each K-th block is dropped.
struct RecomputeMode {
  std::string name = "none";
  BlockOperations dropped = {};  // those whose tensors are dropped within a block
  size_t group_size = 1;    // K consecutive blocks form a group, within which `out` is dropped too
  bool runs_whole = false;  // whether a block that drops something runs all of it again
  // What each block drops, if that has been chosen block by block; otherwise empty. Then the two
  // above say nothing.
  std::vector<BlockOperations> of_blocks = {};
};
// Throws a UserError that names --recompute if there is no such mode.
RecomputeMode parse_recompute(const std::string& name);
// Throws a UserError unless a part of the model with so many transformer blocks has a whole group.
// A part without blocks has nothing to recompute, which is no error.
void check_recompute(const RecomputeMode& mode, size_t num_blocks);

// The plan says for every transformer block of a part of the model which tensors are dropped, where
// they lie meanwhile, and which of them backward computes again.
//
// A dropped tensor lies in memory that all blocks share. That memory is a few sets with at most one
// tensor of each kind. Usually there is one set, since backward computes a block's tensors again
// just before it uses them. But if a block drops its `out`, the next block's input is not kept
// either, and backward computes such a *group* of blocks again from its first block on, before it
// goes back through the group. Then all blocks of the group need their tensors at the same time, so
// the group's i-th block uses the i-th set.
class RecomputePlan {
 public:
  // Keeps everything of any number of blocks.
  RecomputePlan() = default;
  // dropped[i] are the operations whose tensors the i-th block drops. `num_in_flight` is the number
  // of micro-batches that may be between forward and backward. `runs_whole` is the mode's.
  // REQUIRES: the last block keeps `out`.
  RecomputePlan(const std::vector<BlockOperations>& dropped, size_t num_in_flight,
                bool runs_whole = false);

  // Returns whether the block drops what the operation computes.
  bool drops(size_t block, size_t operation) const { return of(block).dropped[operation]; }
  // Returns the operations that backward runs again for this block. These are those whose tensors
  // the block drops. With one micro-batch in flight a dropped tensor stays where forward put it if
  // no later block drops the same one, and then its operation does not run again. In a plan that
  // runs whole blocks these are all; those whose tensors are kept compute the same bits once more.
  BlockOperations recomputed(size_t block) const { return of(block).recomputed; }
  // Returns the block's place in its group, which is also the number of its set.
  size_t set_of(size_t block) const { return of(block).set; }
  bool ends_group(size_t block) const { return !drops(block, kBlockOutput); }
  // Lets nothing run again of groups that end before block `first`.
  void end_backward_at(size_t first);
  // Returns for each set the operations whose tensors need memory there.
  const std::vector<BlockOperations>& sets() const { return sets_; }

  bool operator==(const RecomputePlan&) const = default;

 private:
  struct Block {
    BlockOperations dropped, recomputed;
    size_t set = 0;
    bool operator==(const Block&) const = default;
  };
  Block of(size_t block) const { return blocks_.empty() ? Block() : blocks_.at(block); }

  std::vector<Block> blocks_;
  std::vector<BlockOperations> sets_;
};

// Returns the plan of a mode for a part with so many transformer blocks. Throws UserError if
// check_recompute() does.
RecomputePlan plan_recompute(const RecomputeMode& mode, size_t num_blocks, size_t num_in_flight);
// Returns that of one rank with the whole model and one micro-batch in flight. Of blocks that
// backward does not reach, since neither they nor any before are trained, nothing runs again.
RecomputePlan plan_recompute(const RecomputeMode& mode, const ModelConfig& model);

}  // namespace ladder
