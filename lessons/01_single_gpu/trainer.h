// Lesson 01: one device holds everything.
#pragma once

#include "common/model/gpt2.h"
#include "common/model/optimizer.h"
#include "common/train/micro_batch.h"
#include "common/train/trainer.h"

namespace ladder {

// Parameters, gradients and AdamW's two moments, whole, on one device. A global batch that is too
// large for its memory runs as several micro-batches whose gradients are accumulated.
class SingleGpuTrainer {
 public:
  static constexpr LessonInfo kLesson = {"01_single_gpu", "Trains a GPT-2 on one device."};
  static constexpr bool kDistributed = false;

  struct Flags {
    void add_to(CLI::App&) {}  // the common flags are all
  };

  // With P parameters (padded), s bytes an element: parameters P s, gradients P s, optimizer 2 P s,
  // and activations and workspace as their classes say.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  SingleGpuTrainer(const TrainerContext& context, const Flags& flags);

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink);

 private:
  TrainerContext context_;
  Layout layout_;
  Tensor parameters_, gradients_, exp_avg_, exp_avg_sq_;
  Activations activations_;
  ModelWorkspace workspace_;
  Gpt2 model_;
  BatchLoader batch_;
  LossSum losses_;
  GradNorm grad_norm_;
  ParameterStaging staging_;
  int64_t step_ = 0;
};

}  // namespace ladder
