// A rank's share of every sequence.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "common/train/micro_batch.h"
#include "common/train/ranks.h"
#include "lessons/14_context_parallel/ring.h"

namespace ladder {

// Options of a program whose ranks share sequences.
struct ContextFlags {
  size_t size = 0;  // ranks that share each sequence; 0 = the lesson's default
  Slicing slices = Slicing::zigzag;
  // `group` is the heading of these flags in --help, `default_size` what it says of the size.
  void add_to(CLI::App& app, const char* group, const char* default_size);
  // Returns which tokens each rank of a context group has. Throws what SlicePlan throws.
  SlicePlan plan(const RunConfig& config, const ProcessGrid& grid) const {
    return SlicePlan(slices, config.model.sequence_length, grid.context_size);
  }
};

// ContextShare is what a model runner needs if this rank has some tokens of each sequence, and the
// other ranks of its context group have the others. If the rank has all tokens, it is empty.
class ContextShare {
 public:
  // What the context refers to must outlive this object.
  ContextShare(const TrainerContext& context, const ContextFlags& flags);

  SequencePart part() const;
  // Returns attention over the tokens of all ranks. This object must outlive it.
  ContextParallel attention() { return ring_ ? ring_->functions() : ContextParallel(); }

 private:
  SlicePlan plan_;
  size_t rank_;
  std::unique_ptr<RingAttention> ring_;  // null if this rank has all tokens
};

}  // namespace ladder
