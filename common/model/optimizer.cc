#include "common/model/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/norm.h"
#include "kernels/runtime/range.h"

namespace ladder {

double learning_rate_at(const OptimizerConfig& config, int64_t step) {
  const double highest = config.learning_rate, lowest = config.min_learning_rate;
  if (step <= config.warmup_steps) {
    return highest * static_cast<double>(step) / static_cast<double>(config.warmup_steps);
  }
  const int64_t decay_steps = config.num_steps - config.warmup_steps;
  const double done = std::min(
      1.0, static_cast<double>(step - config.warmup_steps) / static_cast<double>(decay_steps));
  return lowest + 0.5 * (highest - lowest) * (1 + std::cos(std::numbers::pi * done));
}

double clip_factor(const OptimizerConfig& config, double grad_norm) {
  return config.clip_norm > 0 && grad_norm > config.clip_norm ? config.clip_norm / grad_norm : 1;
}

AdamWStep adamw_step(const OptimizerConfig& config, int64_t step, double grad_norm) {
  return {.learning_rate = learning_rate_at(config, step),
          .beta1 = config.beta1,
          .beta2 = config.beta2,
          .epsilon = config.epsilon,
          .weight_decay = config.weight_decay,
          .grad_scale = clip_factor(config, grad_norm),
          .step = step};
}

void adamw_update(Stream& stream, const Layout& layout, size_t first, TensorView params,
                  TensorView exp_avg, TensorView exp_avg_sq, ConstTensorView grads,
                  const AdamWStep& step) {
  const Range range("AdamW");
  AdamWStep no_decay = step;
  no_decay.weight_decay = 0;
  for_parameters_in(layout, first, first + params.num_elements(),
                    [&](const Parameter& parameter, size_t, size_t from, size_t to) {
                      const size_t at = from - first, count = to - from;
                      adamw(stream, params.rows(at, count), exp_avg.rows(at, count),
                            exp_avg_sq.rows(at, count), grads.rows(at, count),
                            parameter.decays() ? step : no_decay);
                    });
}

GradNorm::GradNorm(Memory& memory, const Layout& layout)
    : layout_(layout),
      workspace_(memory, Category::workspace, DType::fp64,
                 {sum_workspace_elements(layout.largest_unit() / layout.world_size())}),
      squares_(memory, Category::workspace, DType::fp64, {layout.units().size()}) {}

size_t GradNorm::num_bytes(const Layout& layout) {
  return size_of(DType::fp64) *
         (sum_workspace_elements(layout.largest_unit() / layout.world_size()) +
          layout.units().size());
}

double GradNorm::squared_norm(Stream& stream,
                              const std::function<ConstTensorView(size_t unit)>& shard_of) {
  const TensorView squares = squares_;
  for (size_t unit = 0; unit < layout_.units().size(); ++unit) {
    ladder::squared_norm(stream, squares.rows(unit, 1), workspace_, shard_of(unit));
  }
  std::vector<double> host(layout_.units().size());
  copy(stream, TensorView(host.data(), DType::fp64, DeviceType::cpu, {host.size()}), squares);
  stream.synchronize();
  double total = 0;
  for (double square : host) total += square;
  return total;
}

}  // namespace ladder
