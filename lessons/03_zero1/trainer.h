// Lesson 03: ZeRO stage 1. The optimizer's state is sharded.
#pragma once

#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/shards.h"

namespace ladder {

// Every rank still has all parameters and all gradients, but the moments of its own shard alone:
// gradients are reduce-scattered, each rank updates its shard of every unit, and the updated
// parameters are all-gathered. [Rajbhandari20, ZeRO, section 5.1: P_os]
class Zero1Trainer {
 public:
  static constexpr LessonInfo kLesson = {"03_zero1",
                                         "Trains a GPT-2 on several ranks that share the "
                                         "optimizer's state (ZeRO-1)."};
  static constexpr bool kDistributed = true;

  struct Flags {
    void add_to(CLI::App&) {}
  };

  // With P padded parameters: parameters P s, gradients P s, optimizer 2 P s / N. Each step
  // reduce-scatters P gradients and all-gathers P parameters: 2 (N-1)/N P s bytes, as lesson 02.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  Zero1Trainer(const TrainerContext& context, const Flags&)
      : Zero1Trainer(context, Layout(context.config.model, context.grid.data_size)) {}

  StepResult step();
  double evaluate(size_t num_batches) { return ranks_.evaluate(num_batches); }
  void visit(TensorKind kind, const TensorSink& sink) { collector_.visit(kind, sink); }
  void check_replicas() { check_copies(replica_, {{world_}}); }

 private:
  Zero1Trainer(const TrainerContext& context, const Layout& layout);

  Communicator& world_;
  Replica replica_;
  DataParallel ranks_;
  GradientScatter scatter_;
  ShardCollector collector_;
  int64_t step_ = 0;
};

}  // namespace ladder
