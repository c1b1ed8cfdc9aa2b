// Lesson 21: hybrid shards. Groups of ranks shard a copy of the model each.
#pragma once

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/05_zero3/gather.h"
#include "lessons/21_hybrid_shard/replicated_shards.h"
#include "lessons/21_hybrid_shard/shard_groups.h"

namespace ladder {

// HybridShardTrainer is lesson 05 within groups of S consecutive ranks, and lesson 02 between them.
// Every group has a copy of the model, of which each of its ranks has a shard: parameters,
// gradients and moments. Units are gathered within the group. Each micro-batch's gradients are
// summed there, too; the sums of all micro-batches are summed between groups, once a step. With S =
// N it is lesson 05, with S = 1 nearly lesson 02. [Zhao23 FSDP, section 3.2.2; Zhang22 MiCS]
class HybridShardTrainer final : public Trainer {
 public:
  struct Flags {
    ShardFlags shards = {};
    GatherOptions gather = {};
    void add_to(FlagTable& flags) {
      shards.add_to(flags);
      gather.add_to(flags, "ZeRO-3");
    }
  };
  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank) {
    return flags.shards.arrange(num_ranks, rank);
  }
  static void adjust(Flags& flags, RunConfig& config) { flags.shards.adjust(config.machine_of); }
  // Returns a line for the header: the groups, and whether they cross machines.
  static std::string describe(const Flags&, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan&);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "21_hybrid_shard",
               .description =
                   "Trains a model of which every machine has a copy, shared by its ranks (HSDP).",
               .gives_matrices = true},
      .arrange = arrange,
      .adjust = adjust,
      .describe = describe};

  HybridShardTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error that names a rank unless all copies of a shard are the same to the bit.
  void check_replicas() override;

 private:
  // Returns the norm of the whole gradient, the same on every rank.
  double grad_norm();

  TrainerContext context_;
  Communicator &ranks_, &shard_group_, &replicas_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  UnitGatherer gatherer_;
  ReplicatedShards sync_;
};

}  // namespace ladder
