// Lesson 04: ZeRO stage 2. Gradients are sharded too.
#pragma once

#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/shards.h"
#include "lessons/04_zero2/gradients.h"

namespace ladder {

// Every rank still has all parameters, but gradients and moments of its own shard alone. A unit's
// whole gradient exists only while its backward runs. [Rajbhandari20, ZeRO, section 5.2: P_os+g]
class Zero2Trainer {
 public:
  static constexpr LessonInfo kLesson = {"04_zero2",
                                         "Trains a GPT-2 on several ranks that share gradients and "
                                         "the optimizer's state (ZeRO-2)."};
  static constexpr bool kDistributed = true;

  struct Flags {
    void add_to(CLI::App&) {}
  };

  // With P padded parameters and E of them in the token embedding, U in the largest other unit, M
  // micro-batches: parameters P s, gradients P s / N, optimizer 2 P s / N, communication
  // (E + 2 U) s. Each micro-batch reduce-scatters P gradients, each step all-gathers P parameters:
  // (M + 1) (N-1)/N P s bytes.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  Zero2Trainer(const TrainerContext& context, const Flags&)
      : Zero2Trainer(context, Layout(context.config.model, context.grid.data_size)) {}

  StepResult step();
  double evaluate(size_t num_batches) { return ranks_.evaluate(num_batches); }
  void visit(TensorKind kind, const TensorSink& sink) { collector_.visit(kind, sink); }
  void check_replicas() { check_copies(replica_, {{world_}}); }

 private:
  Zero2Trainer(const TrainerContext& context, const Layout& layout);

  Communicator& world_;
  Replica replica_;
  DataParallel ranks_;
  GradientShards gradients_;
  ShardCollector collector_;
  int64_t step_ = 0;
};

}  // namespace ladder
