// AdamW over the flat layout, the learning-rate schedule, and the global gradient norm.
#pragma once

#include <cstdint>
#include <functional>

#include "common/model/layout.h"
#include "kernels/adamw.h"
#include "kernels/runtime/stream.h"

namespace ladder {

struct OptimizerConfig {
  int64_t num_steps = 200;
  int64_t warmup_steps = 10;
  double learning_rate = 1e-3, min_learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1;  // 0 = no clipping
};

// Linear warm-up from 0 over warmup_steps, then a cosine from learning_rate down to
// min_learning_rate at num_steps. [Loshchilov17] `step` is 1-based.
double learning_rate_at(const OptimizerConfig& config, int64_t step);

// What gradients are multiplied by: clip_norm / norm where the norm is larger, else 1. [Pascanu13]
double clip_factor(const OptimizerConfig& config, double grad_norm);

// The numbers of update `step` (1-based), given the global norm of its gradients.
AdamWStep adamw_step(const OptimizerConfig& config, int64_t step, double grad_norm);

// What AdamW keeps for every parameter that it updates, and how many updates it has made.
// [Loshchilov19]
class AdamW {
 public:
  // Moments of `dtype` for `elements` parameters; with `has_masters` also a master copy of these
  // parameters, which is then what updates are made to. Category: optimizer.
  AdamW(Memory& memory, const OptimizerConfig& config, DType dtype, size_t elements,
        bool has_masters);

  // The numbers of the next update, given the global norm of its gradients. Counts it.
  AdamWStep next_step(double grad_norm);

  Tensor exp_avg, exp_avg_sq;  // moments of the gradients and of their squares
  Tensor masters;              // empty where there are none

 private:
  OptimizerConfig config_;
  int64_t num_updates_ = 0;
};

// Updates elements [first, first + n) of the flat buffer, given as spans (n); weight decay goes to
// 2-D weights only; padding and what is not trainable are not touched. Asynchronous on the stream.
void adamw_update(Stream& stream, const Layout& layout, size_t first, TensorView params,
                  TensorView exp_avg, TensorView exp_avg_sq, ConstTensorView grads,
                  const AdamWStep& step);

// Sums the squares of one rank's gradients, in fp64, in the same order whatever the lesson: shard
// by shard of every unit. Of parameters that several ranks hold alike (Parameter::counted) one
// does.
class GradNorm {
 public:
  // Category: workspace.
  GradNorm(Memory& memory, const Layout& layout);

  // The sum over rank `rank`'s shards of all units, unit by unit, in a buffer of gradients that is
  // whole or has these shards alone. Synchronizes the stream.
  double squared_norm(Stream& stream, size_t rank, ConstTensorView gradients);

 private:
  const Layout& layout_;
  Tensor workspace_, squares_;
};

}  // namespace ladder
