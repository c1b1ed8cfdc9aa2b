// A rank's share of every sequence.
#pragma once

#include <memory>
#include <optional>

#include "common/io/cli11.h"
#include "common/train/micro_batch.h"
#include "common/train/ranks.h"
#include "lessons/14_context_parallel/ring.h"
#include "lessons/14_context_parallel/ulysses.h"

namespace ladder {

// Options of a program whose ranks share sequences.
struct ContextFlags {
  // How attention sees the tokens of other ranks.
  enum class Method { ring, ulysses };

  size_t size = 0;  // ranks that share each sequence; 0 = the lesson's default
  Method attention = Method::ring;
  // Unless it is set: zigzag for the ring, whose ranks then have equally much to compute. Ulysses
  // has that anyway; with contiguous slices it copies half as many pieces.
  std::optional<Slicing> slices = {};
  // `group` is the heading of these flags in --help, `default_size` what it says of the size.
  void add_to(CLI::App& app, const char* group, const char* default_size);
  // Adds --attention, for a lesson that has both methods.
  void add_attention_to(CLI::App& app, const char* group);
  Slicing slicing() const {
    return slices.value_or(attention == Method::ring ? Slicing::zigzag : Slicing::contiguous);
  }
  // Returns which tokens each rank of a context group has. Throws UserError if the ranks cannot
  // share sequences in this way.
  SlicePlan plan(const RunConfig& config, const ProcessGrid& grid) const;
};

// ContextShare is what a model runner needs if this rank has some tokens of each sequence, and the
// other ranks of its context group have the others. If the rank has all tokens, it is empty.
class ContextShare {
 public:
  // What the context refers to must outlive this object.
  ContextShare(const TrainerContext& context, const ContextFlags& flags);

  SequencePart part() const;
  // Returns attention over the tokens of all ranks. This object must outlive it.
  ContextParallel attention();

 private:
  SlicePlan plan_;
  size_t rank_;
  // At most one of them is there, and none if this rank has all tokens.
  std::unique_ptr<RingAttention> ring_;
  std::unique_ptr<UlyssesAttention> ulysses_;
};

}  // namespace ladder
