#include "common/optimizer/sgd.h"

#include "common/model/slices.h"
#include "kernels/elementwise.h"

namespace ladder {

std::vector<std::string_view> Sgd::state() const {
  if (config_.momentum == 0) return {};
  return {kMomentum};
}

void Sgd::update(Stream& stream, const std::vector<UpdateTensors>& tensors,
                 const UpdateStep& step) {
  const double rate = step.learning_rate;
  for (const auto& [parameter, param, grad, copy, state] : tensors) {
    const double decay = parameter->decays() ? config_.weight_decay : 0;
    if (!state.empty()) {
      const TensorView momentum = state[0];
      scale(stream, momentum, momentum, config_.momentum);
      add_scaled(stream, momentum, grad, step.grad_scale, momentum);
      add_scaled(stream, momentum, param, decay, momentum);
    }
    if (state.empty() || config_.nesterov) {  // it moves by G
      scale(stream, param, param, 1 - rate * decay);
      add_scaled(stream, param, grad, -rate * step.grad_scale, param);
    }
    if (!state.empty()) {
      const double ahead = config_.nesterov ? config_.momentum : 1;
      add_scaled(stream, param, state[0], -rate * ahead, param);
    }
    if (!copy.empty()) cast(stream, copy, param);
  }
}

double Sgd::flops(const Parameter& parameter) const {
  const double by_gradient = 3, by_momentum = 7;  // of an element
  const double each = config_.momentum == 0 ? by_gradient
                      : config_.nesterov    ? by_gradient + by_momentum
                                            : by_momentum;
  return each * static_cast<double>(parameter.full_shape.num_elements());
}

}  // namespace ladder
