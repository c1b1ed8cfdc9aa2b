// Lesson 05: ZeRO stage 3. Parameters are sharded too.
#pragma once

#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/shards.h"
#include "lessons/04_zero2/gradients.h"
#include "lessons/05_zero3/gather.h"

namespace ladder {

// Every rank has parameters, gradients and moments of its own shard alone. A unit's parameters are
// gathered for its forward, and again for its backward. [Rajbhandari20, ZeRO, section 5.3:
// P_os+g+p; Zhao23, FSDP]
class Zero3Trainer {
 public:
  static constexpr LessonInfo kLesson = {"05_zero3",
                                         "Trains a GPT-2 on several ranks that share parameters, "
                                         "gradients and the optimizer's state (ZeRO-3, FSDP)."};
  static constexpr bool kDistributed = true;

  struct Flags {
    GatherOptions gather;
    void add_to(CLI::App& app) { gather.add_to(app, "ZeRO-3"); }
  };

  // With P padded parameters, E of them in the token embedding, W in the position embedding, U in
  // the largest other unit, M micro-batches, K units prefetched: parameters P s / N, gradients
  // P s / N, optimizer 2 P s / N, communication (E + 2 U) s for gradients and (E + (K + 1) U) s for
  // gathered units. Each micro-batch gathers 2 P - W parameters and reduce-scatters P gradients:
  // M (3 P - W) (N-1)/N s bytes a step.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  Zero3Trainer(const TrainerContext& context, const Flags& flags)
      : Zero3Trainer(context, Layout(context.config.model, context.grid.data_size), flags) {}

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink) { collector_.visit(kind, sink); }
  size_t most_gathered() const { return gatherer_.most_gathered(); }

 private:
  Zero3Trainer(const TrainerContext& context, const Layout& layout, const Flags& flags);
  // For one micro-batch of training: where weights come from and gradients go to.
  Hooks hooks(Stream& stream);

  Communicator& world_;
  Replica replica_;
  DataParallel ranks_;
  UnitGatherer gatherer_;
  GradientShards gradients_;
  ShardCollector collector_;
  int64_t step_ = 0;
};

}  // namespace ladder
