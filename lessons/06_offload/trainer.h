// Lesson 06: CPU offload. What only the update needs lies in host memory, and so does the update.
#pragma once

#include <memory>

#include "common/train/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
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

  // Bytes on the wire as lesson 04 (stage 2) or 05 (stage 3).
  static TrafficEntries traffic(const RunConfig& config, const ProcessGrid& grid,
                                const Flags& flags);

  OffloadTrainer(const TrainerContext& context, const Flags& flags);
  void initialize() { state_.initialize(); }
  StepResult step();
  double evaluate(size_t num_batches);
  std::vector<Slice> slices(std::string_view kind) const { return state_.slices(kind); }
  void check_replicas();

 private:
  // For one micro-batch: where weights come from; with stage 2 they are where they always are.
  Hooks weights(const std::vector<Use>& walk);
  // AdamW on the host; each unit's parameters go to the device, and to the other ranks, while the
  // next one's are updated.
  void update(const AdamWStep& step);

  TrainerContext context_;
  Flags flags_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  std::unique_ptr<UnitGatherer> gatherer_;  // with stage 3
  HostGradients sync_;
};

}  // namespace ladder
