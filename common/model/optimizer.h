// AdamW on flat buffers, the learning-rate schedule, and the norm of the whole gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "common/model/layout.h"
#include "kernels/adamw.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// What updates the model: AdamW all of it, or Muon the matrices of its blocks and AdamW the rest.
enum class OptimizerKind { adamw, muon };
// By what Muon scales an update that is orthogonal: sqrt(max(1, outputs / inputs)) [Jordan24], or
// 0.2 sqrt(max(outputs, inputs)), with which its elements are as large as AdamW's, so that both can
// have one learning rate [Liu25, section 2.2].
enum class MuonScale { spectral, rms };

// How weights get their homes (muon_homes.h). longest_first: the weight that takes longest goes to
// the rank that has least to do, then the next. in_turn: one after the other, in the order of the
// model.
enum class HomeChoice { longest_first, in_turn };

struct OptimizerConfig {
  int64_t num_steps = 200;
  int64_t warmup_steps = 10;
  double learning_rate = 1e-3, min_learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1;  // 0 = no clipping
  OptimizerKind kind = OptimizerKind::adamw;
  MuonScale muon_scale = MuonScale::rms;
  double muon_momentum = 0.95;
  bool splits_qkv = true;  // whether Muon takes q, k and v of one weight for three matrices
};

// Returns whether a run keeps this kind (slices.h) of a parameter: of what is frozen only kParam,
// and of what Muon updates no second moments.
bool keeps(OptimizerKind optimizer, std::string_view kind, const ParameterSpec& parameter);

// Returns the learning rate of a step (1-based). It rises linearly from 0 over warmup_steps, then
// falls along a cosine from learning_rate to min_learning_rate at num_steps. [Loshchilov17]
double learning_rate_at(const OptimizerConfig& config, int64_t step);

// Returns the factor that clips gradients: clip_norm / grad_norm if the norm is larger than
// clip_norm, else 1. [Pascanu13]
double clip_factor(const OptimizerConfig& config, double grad_norm);

// Returns what the AdamW kernel needs for update `step` (1-based): learning rate, factors and so
// on. `grad_norm` is the norm of the whole gradient.
AdamWStep adamw_step(const OptimizerConfig& config, int64_t step, double grad_norm);

// AdamW has the optimizer's state for the parameters that this rank updates, Muon's momentum too,
// and counts updates. [Loshchilov19]
class AdamW {
 public:
  // Allocates the first moment in `dtype` for `elements` parameters, the second for
  // `second_elements`, and with `has_masters` also a master copy of these parameters, which is then
  // the copy that is updated. Category: optimizer.
  AdamW(Memory& memory, const OptimizerConfig& config, DType dtype, size_t elements,
        size_t second_elements, bool has_masters);

  // Counts an update and returns what the kernel needs for it (adamw_step() above).
  AdamWStep next_step(double grad_norm);

  // Running means of the gradients and of their squares. Of what is Muon's: momentum, a sum.
  Tensor exp_avg, exp_avg_sq;
  Tensor masters;           // empty if there are none
  int64_t num_updates = 0;  // so far

 private:
  OptimizerConfig config_;
};

// Returns what there is to update among elements [first, first + n) of the flat buffer, parameter
// by parameter. The layout is that of what is trained (Layout::trained), and the views of `range`
// have just these elements: (n) each. Only 2-D weights get weight decay. Padding is not among them.
std::vector<AdamWTensors> adamw_tensors(const Layout& layout, size_t first,
                                        const AdamWTensors& range);

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
