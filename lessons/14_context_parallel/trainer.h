// Lesson 14: context parallelism. Ranks share each sequence.
#pragma once

#include <memory>
#include <optional>

#include "common/train/ranks.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/14_context_parallel/ring.h"
#include "lessons/14_context_parallel/ulysses.h"

namespace ladder {

// In ContextParallelTrainer the ranks of a context group run the same sequences, and each has a
// part of the tokens of every sequence. Only attention needs the tokens of other ranks:
// RingAttention brings their keys and values, UlyssesAttention all tokens of some heads. Several
// context groups share the global batch. Every rank has a whole replica of the model, and gradients
// are summed over all ranks, as in lesson 02.
class ContextParallelTrainer {
 public:
  static constexpr LessonInfo kLesson = {"14_context_parallel",
                                         "Trains a GPT-2 on sequences that ranks share."};
  static constexpr bool kDistributed = true;

  // How attention sees the tokens of other ranks.
  enum class Method { ring, ulysses };

  struct Flags {
    size_t context_parallel_size = 0;  // 0 = all ranks
    Method attention = Method::ring;
    // Unless it is set: zigzag for the ring, whose ranks then have equally much to compute. Ulysses
    // has that anyway; with contiguous slices it copies half as many pieces.
    std::optional<Slicing> slices = {};
    size_t bucket_bytes = size_t{25} << 20;
    bool no_overlap = false;
    void add_to(CLI::App& app);
    Slicing slicing() const {
      return slices.value_or(attention == Method::ring ? Slicing::zigzag : Slicing::contiguous);
    }
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  // Returns what a step communicates: lesson 02's gradients, and what attention exchanges.
  static TrafficEntries traffic(const RunConfig& config, const ProcessGrid& grid,
                                const Flags& flags);
  // Returns lines for the header: the tokens of each rank.
  static std::string describe(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  ContextParallelTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() { return state_; }
  StepResult step();
  double evaluate(size_t num_batches);
  // Throws an Error that names a rank unless all replicas are the same to the bit.
  void check_replicas();

 private:
  ModelRunner::Options model_options() const;

  TrainerContext context_;
  Communicator& world_;
  SlicePlan slices_;
  // At most one of them is there, and none if a rank has whole sequences.
  std::unique_ptr<RingAttention> ring_;
  std::unique_ptr<UlyssesAttention> ulysses_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;  // the sequences of this rank's context group
  BucketSync sync_;
};

}  // namespace ladder
