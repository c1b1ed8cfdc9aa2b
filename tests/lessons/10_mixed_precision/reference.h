// A step of mixed precision written out, from the masters to the masters: what each rank's
// gradients are, how they are rounded and summed, and what AdamW makes of the sum. It shares the
// model's kernels with the trainers, and nothing of what lessons 01 to 10 do with their results.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/data/batch.h"
#include "common/model/model.h"
#include "common/model/optimizer.h"
#include "common/train/trainer/config.h"
#include "kernels/elementwise.h"

namespace ladder::testing {

// x as the nearest number of bf16 or fp16, ties to even, in plain arithmetic; fp32 as it is. Beyond
// the largest number by half of its last place or more it is infinite.
inline float rounded(double x, DType dtype) {
  if (dtype == DType::fp32 || !std::isfinite(x) || x == 0) return static_cast<float>(x);
  const bool is_bf16 = dtype == DType::bf16;
  const int significant_bits = is_bf16 ? 8 : 11, least_exponent = is_bf16 ? -133 : -24;
  const double largest = is_bf16 ? 0x1.FEp127 : 65504;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| is from 2^(exponent - 1) to below 2^exponent
  const int last_place = std::max(exponent - significant_bits, least_exponent);
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(x, -last_place)), last_place);
  if (std::abs(nearest) <= largest) return static_cast<float>(nearest);
  return static_cast<float>(std::copysign(std::numeric_limits<double>::infinity(), x));
}

// The numbers of a flat buffer: one for each element of the layout, padding included.
using Flat = std::vector<float>;

class MixedReference {
 public:
  // `reduced`: what gradients are rounded to before they are summed.
  MixedReference(const RunConfig& config, size_t num_ranks, DType reduced)
      : config_(config),
        num_ranks_(num_ranks),
        reduced_(reduced),
        layout_(config.model, num_ranks) {}

  const Layout& layout() const { return layout_; }

  // The sum of all ranks' gradients, of the loss times `scale`, in a training step (1-based) that
  // begins with these masters.
  struct Gradients {
    Flat sum;
    double loss = 0;  // mean over the global batch, not scaled
    bool finite = true;
  };
  Gradients gradients(const Flat& masters, int64_t step, double scale) const {
    Gradients result = {.sum = Flat(masters.size())};
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      const Flat own = gradients_of(rank, masters, step, scale, result.loss);
      for (size_t i = 0; i < own.size(); ++i) {
        // Of rank 0 the first, then one after the other, in fp32.
        result.sum[i] =
            rank == 0 ? rounded(own[i], reduced_) : result.sum[i] + rounded(own[i], reduced_);
      }
    }
    for (float& sum : result.sum) {
      sum = rounded(sum, reduced_);
      result.finite = result.finite && std::isfinite(sum);
    }
    result.loss /= static_cast<double>(config_.tokens_per_step());
    return result;
  }

  // The global norm of gradients that were scaled by `scale`.
  static double norm(const Gradients& gradients, double scale) {
    double squares = 0;
    for (float g : gradients.sum) squares += static_cast<double>(g) * g;
    return std::sqrt(squares) / scale;
  }

  // One element's AdamW, in fp64: the `update`-th (1-based). [Loshchilov19, algorithm 2]
  struct Element {
    double master, exp_avg, exp_avg_sq;
  };
  Element updated(Element e, double gradient, double norm, int64_t update, bool decays) const {
    const OptimizerConfig& o = config_.optimizer;
    const double g = gradient * std::min(1.0, o.clip_norm / norm);
    const double rate = learning_rate_at(o, update), t = static_cast<double>(update);
    e.exp_avg = o.beta1 * e.exp_avg + (1 - o.beta1) * g;
    e.exp_avg_sq = o.beta2 * e.exp_avg_sq + (1 - o.beta2) * g * g;
    const double mean = e.exp_avg / (1 - std::pow(o.beta1, t));
    const double square = e.exp_avg_sq / (1 - std::pow(o.beta2, t));
    e.master -=
        rate * (mean / (std::sqrt(square) + o.epsilon) + (decays ? o.weight_decay * e.master : 0));
    return e;
  }

 private:
  // One rank's, of all its micro-batches; adds its losses to `loss`.
  Flat gradients_of(size_t rank, const Flat& masters, int64_t step, double scale,
                    double& loss) const {
    const size_t batch = config_.micro_batch_size, length = config_.model.sequence_length;
    const size_t rows = config_.global_batch_size / num_ranks_;
    Memory memory(DeviceType::cpu, "device", 0);
    Stream stream(DeviceType::cpu);
    const Tensor parameters(memory, Category::parameters, config_.dtype, {masters.size()});
    const Tensor sum(memory, Category::gradients, DType::fp32, {masters.size()});
    const Tensor tokens(memory, Category::workspace, DType::int32, {batch, length});
    const Tensor targets(memory, Category::workspace, DType::int32, {batch, length});
    Activations activations(memory, layout_, config_.dtype, batch, length);
    const ModelWorkspace workspace(memory, layout_, config_.dtype, batch, length);
    Flat weights;
    for (float master : masters) weights.push_back(rounded(master, config_.dtype));
    cast(stream, parameters,
         ConstTensorView(weights.data(), DType::fp32, DeviceType::cpu, {weights.size()}));  // exact
    const Model model(layout_, parameters, sum);
    for (size_t row = 0; row < rows; row += batch) {
      fill_batch(corpus_, Split::train, config_.seed, static_cast<uint64_t>(step),
                 rank * rows + row, tokens, targets);
      model.forward(stream, activations, workspace, TokenViews(tokens));
      model.classify(stream, activations, workspace, targets,
                     scale / static_cast<double>(config_.tokens_per_step()));
      model.backward(stream, activations, workspace, TokenViews(tokens));
      const TensorView losses = workspace.losses(activations);
      for (size_t i = 0; i < losses.num_elements(); ++i) loss += losses.as<float>()[i];
    }
    const float* const elements = sum.view().as<float>();
    return Flat(elements, elements + masters.size());
  }

  RunConfig config_;
  size_t num_ranks_;
  DType reduced_;
  Layout layout_;
  Corpus corpus_ = Corpus::king_james();
};

}  // namespace ladder::testing
