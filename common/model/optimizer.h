// What updates the model, the learning-rate schedule, and the norm of the whole gradient.
#pragma once

#include <cstdint>
#include <string>

#include "common/model/layout.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// By what Muon scales an update that is orthogonal: sqrt(max(1, outputs / inputs)) [Jordan24], or
// 0.2 sqrt(max(outputs, inputs)), with which its elements are as large as AdamW's, so that both can
// have one learning rate [Liu25, section 2.2].
enum class MuonScale { spectral, rms };

// How weights get their homes (muon_homes.h). longest_first: the weight that takes longest goes to
// the rank that has least to do, then the next. in_turn: one after the other, in the order of the
// model.
enum class HomeChoice { longest_first, in_turn };

struct OptimizerConfig {
  // As --optimizer has it. adamw and sgd update all of the model; muon the matrices of its blocks,
  // and AdamW the rest.
  std::string name = "adamw";
  int64_t num_steps = 200;
  int64_t warmup_steps = 10;
  double learning_rate = 1e-3, min_learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1;  // 0 = no clipping
  double momentum = 0;   // of SGD; 0 = none
  bool nesterov = false;
  MuonScale muon_scale = MuonScale::rms;
  double muon_momentum = 0.95;
  bool splits_qkv = true;  // whether Muon takes q, k and v of one weight for three matrices
};

// Returns the learning rate of a step (1-based). It rises linearly from 0 over warmup_steps, then
// falls along a cosine from learning_rate to min_learning_rate at num_steps. [Loshchilov17]
double learning_rate_at(const OptimizerConfig& config, int64_t step);

// Returns the factor that clips gradients: clip_norm / grad_norm if the norm is larger than
// clip_norm, else 1. [Pascanu13]
double clip_factor(const OptimizerConfig& config, double grad_norm);

// GradNorm sums the squares of gradients in fp64. Every lesson sums in the same order: each rank
// sums what it owns of every unit (owned_range), in the order of the units. If several ranks hold
// copies of a parameter, only one of them counts it (Parameter::counted).
class GradNorm {
 public:
  // Allocates workspace. The layout, that of gradients, must outlive this object.
  GradNorm(Memory& memory, const Layout& layout);

  // Returns the sum over what rank `rank` owns. `gradients` is a flat buffer, or has only these
  // shards. Synchronizes the stream.
  double squared_norm(Stream& stream, size_t rank, ConstTensorView gradients);

 private:
  const Layout& layout_;
  Tensor workspace_, squares_;
};

}  // namespace ladder
