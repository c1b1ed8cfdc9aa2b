// Lesson 01: one device holds everything.
#pragma once

#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// A global batch that is too large for the memory of one device runs as several micro-batches whose
// gradients are accumulated.
class SingleGpuTrainer {
 public:
  static constexpr LessonInfo kLesson = {"01_single_gpu", "Trains a GPT-2 on one device."};

  struct Flags {
    void add_to(CLI::App&) {}  // the common flags are all
  };

  static Prediction predict(const RunConfig& config, const ProcessGrid&, const Flags&) {
    const Layout layout(config.model, 1);
    return Replica::predict(config, layout, StateShare::whole(layout));
  }
  SingleGpuTrainer(const TrainerContext& context, const Flags&)
      : SingleGpuTrainer(context, Layout(context.config.model, 1)) {}

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink) { replica_.visit(kind, sink); }

 private:
  SingleGpuTrainer(const TrainerContext& context, const Layout& layout)
      : replica_(context, layout, StateShare::whole(layout)) {}

  Replica replica_;
  int64_t step_ = 0;
};

}  // namespace ladder
