// A rank's share of every sequence: which of its tokens, and how attention sees the others.
#pragma once

#include <memory>
#include <optional>

#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/micro_batch.h"
#include "common/train/trainer/ranks.h"
#include "lessons/14_context_parallel/ring.h"
#include "lessons/14_context_parallel/ulysses.h"

namespace ladder {

// Options of a program whose ranks share sequences (plan: SlicePlan in slices.h).
struct ContextFlags {
  // How attention sees the tokens of other ranks: keys and values pass by, or tokens go to heads.
  enum class Method { ring, ulysses };

  size_t size = 0;  // N, the ranks that share each sequence; 0 = the lesson's default
  Method attention = Method::ring;
  // Not set: zigzag for the ring, so that its ranks have equally much to compute; contiguous for
  // Ulysses, whose ranks have that anyway, because it needs half as many copies.
  std::optional<Slicing> slices = {};
  // `group` is the heading of these flags in --help, `default_size` what it says of the size.
  void add_to(FlagTable& flags, const char* default_size);
  // Adds --attention, for a lesson that has both methods.
  void add_attention_to(FlagTable& flags);
  Slicing slicing() const {
    return slices.value_or(attention == Method::ring ? Slicing::zigzag : Slicing::contiguous);
  }
  // Returns which tokens each rank of a context group has. Throws UserError if a rank would get no
  // token, or with Ulysses if the group's size does not divide the heads of a rank.
  SlicePlan plan(const RunConfig& config, const ProcessGrid& grid) const;
};

// ContextShare gives a model runner what differs if this rank has T / N tokens of each sequence:
// the tokens that it loads, and attention. With N = 1 nothing differs.
class ContextShare {
 public:
  // Allocates the workspace of attention. What the context refers to must outlive this object.
  ContextShare(const TrainerContext& context, const ContextFlags& flags);

  SequenceSlice part() const;  // the positions of this rank's tokens
  // Returns attention of this rank's queries over all T keys, for ContextParallel in the runner. It
  // is collective on the axis `context`, and asynchronous. This object must outlive it.
  ContextParallel attention();

 private:
  SlicePlan plan_;
  size_t rank_;                                // in the context group
  std::unique_ptr<RingAttention> ring_;        // one of the two,
  std::unique_ptr<UlyssesAttention> ulysses_;  // or with N = 1 none
};

}  // namespace ladder
