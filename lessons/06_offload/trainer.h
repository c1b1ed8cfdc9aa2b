// Lesson 06: CPU offload. What only the update needs lies in host memory, and so does the update.
#pragma once

#include <optional>

#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/shards.h"
#include "lessons/04_zero2/gradients.h"
#include "lessons/05_zero3/gather.h"
#include "lessons/06_offload/host_gradients.h"

namespace ladder {

// On ZeRO stage 2 or 3: gradient shards go to the host as soon as they are summed, AdamW runs there
// on the rank's shards, and updated parameters come back. With stage 3 the parameters' shards may
// live on the host alone: each is copied to the device just before it is gathered.
// [Ren21, ZeRO-Offload; Rajbhandari21, ZeRO-Infinity]
class OffloadTrainer {
 public:
  static constexpr LessonInfo kLesson = {"06_offload",
                                         "Trains a GPT-2 with the optimizer, and if wanted the "
                                         "parameters, in host memory (ZeRO-Offload).",
                                         Precisions::full};
  static constexpr bool kDistributed = true;

  struct Flags {
    int zero_stage = 2;
    bool offload_parameters = false;
    GatherOptions gather;  // of stage 3
    void add_to(CLI::App& app);
  };

  // With P padded parameters, E of them in the token embedding, U in the largest other unit, K
  // units prefetched. On the host: parameters P s / N, gradients P s / N, optimizer 2 P s / N. On
  // the device: communication (E + 3 U) s for gradients, and parameters P s (stage 2), P s / N
  // (stage 3), none (stage 3, offloaded), stage 3 with (E + (K + 1) U) s more for gathered units.
  // Bytes on the wire as lesson 04 or 05.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  OffloadTrainer(const TrainerContext& context, const Flags& flags)
      : OffloadTrainer(context, Layout(context.config.model, context.grid.data_size), flags) {}

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink) { collector_.visit(kind, sink); }
  void check_replicas() {
    if (flags_.zero_stage == 2) check_copies(replica_, {{world_}});
  }

 private:
  OffloadTrainer(const TrainerContext& context, const Layout& layout, const Flags& flags);
  // For one micro-batch of training.
  Hooks hooks(Stream& stream);
  // AdamW on the host; each unit's parameters go to the device, and to the other ranks, while the
  // next one's are updated.
  void update(const AdamWStep& step);
  // This rank's shards of the parameters on the host.
  TensorView master(size_t unit) const;

  Flags flags_;
  Communicator& world_;
  Replica replica_;
  DataParallel ranks_;
  Tensor master_;  // empty where the parameters are offloaded: the replica's are there then
  std::optional<UnitGatherer> gatherer_;
  HostGradients host_gradients_;
  GradientShards gradients_;
  ShardCollector collector_;
  int64_t step_ = 0;
};

}  // namespace ladder
