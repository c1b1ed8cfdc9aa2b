// Lesson 15: mixture of experts. Some blocks have many MLPs, each token uses a few of them, and
// ranks share them out.
#pragma once

#include "common/train/program/sample.h"
#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_flags.h"
#include "lessons/15_expert_parallel/expert_flags.h"
#include "lessons/15_expert_parallel/expert_layer.h"

namespace ladder {

// ExpertParallelTrainer is data parallel, as lesson 02, for everything but experts: all ranks sum
// those gradients. Of the experts a rank holds a part, which gets tokens of all ranks of its
// expert-parallel group. Only the ranks with the same part sum its gradients. At ZeRO stage 1 the
// moments are sharded among the ranks that sum the gradients: those of experts in another shard
// group than the rest.
class ExpertParallelTrainer final : public Trainer {
 public:
  struct Flags {
    ExpertFlags experts = {};
    ZeroFlags zero = {};
    void add_to(FlagTable& flags);
  };

  static void adjust(Flags& flags, RunConfig& config) { flags.experts.adjust(config); }
  // Expert-parallel groups are consecutive ranks. Throws UserError if they do not divide.
  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan&);
  // Samples drop nobody, whatever the capacity in training.
  static MixtureMaker make_mixture(const Flags& flags, const RunConfig& config);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "15_expert_parallel",
               .description = "Trains a model with a mixture of experts, which ranks share.",
               .has_experts = true,
               .gives_matrices = true},
      .arrange = arrange,
      .adjust = adjust,
      .describe = describe,
      .make_mixture = make_mixture};

  ExpertParallelTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override { return share_.evaluate(model_, num_batches); }
  void check_replicas() override;
  // Returns how the routers of the last step have divided the tokens.
  std::string report() override;
  // Returns the same as numbers, summed over all ranks. Collective.
  std::map<size_t, ExpertLayer::Load> loads();

 private:
  // Returns hooks that give each sum of gradients the units that it sums.
  Hooks sync_hooks();
  // Updates the parameters. At ZeRO stage 1 each unit's shards are gathered from its shard group.
  double update(double norm);

  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ExpertLayer experts_;
  ModelRunner model_;
  DataParallel share_;
  bool in_shards_;
  std::unique_ptr<GradientSync> shared_sync_, expert_sync_;  // of what all ranks hold, of experts
};

}  // namespace ladder
