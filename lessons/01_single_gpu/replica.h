// Everything that training on one device needs in memory.
#pragma once

#include "common/model/gpt2.h"
#include "common/model/optimizer.h"
#include "common/train/micro_batch.h"
#include "common/train/trainer.h"

namespace ladder {

// One whole copy of the model with its gradients and AdamW's two moments, the memory of one
// micro-batch, and the model's functions on them.
struct Replica {
  // With P parameters (padded), s bytes an element: parameters P s, gradients P s, optimizer 2 P s,
  // and activations and workspace as their classes say. `data_size` ranks share the global batch.
  static Prediction predict(const RunConfig& config, size_t data_size);

  // Allocates, and initializes the parameters from the seed or from --init. Gradients come from
  // `gradient_source`, or from the system where it is null.
  Replica(const TrainerContext& context, size_t data_size, MemorySource* gradient_source);

  // Rows [first_row, first_row + micro batch) of a global batch of the split, forward.
  void forward(Split split, int64_t step, size_t first_row);
  // After forward: adds the micro-batch's loss and gradients. `loss_scale`: dloss of one token.
  void backward(double loss_scale, const Hooks& hooks = {});
  // After forward: adds the micro-batch's loss.
  void evaluate();
  // Updates all parameters.
  void update(const AdamWStep& step);
  // Full tensors of one kind.
  void visit(TensorKind kind, const TensorSink& sink);

  // `hooks`, and spans of the trace where there is one.
  Hooks traced(const Hooks& hooks);

  TrainerContext context;
  Layout layout;
  Tensor parameters, gradients, exp_avg, exp_avg_sq;
  Activations activations;
  ModelWorkspace workspace;
  Gpt2 model;
  BatchLoader batch;
  LossSum losses;
  GradNorm grad_norm;
  ParameterStaging staging;
};

}  // namespace ladder
