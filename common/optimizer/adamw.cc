#include "common/optimizer/adamw.h"

#include "common/model/slices.h"
#include "kernels/adamw.h"

namespace ladder {

std::vector<std::string_view> AdamW::state() const { return {kExpAvg, kExpAvgSq}; }

void AdamW::update(Stream& stream, const std::vector<UpdateTensors>& tensors,
                   const UpdateStep& step) {
  std::vector<AdamWTensors> all;
  for (const auto& [parameter, param, grad, copy, state] : tensors) {
    all.push_back({param, state[0], state[1], grad, copy, parameter->decays()});
  }
  adamw(stream, all,
        {.learning_rate = step.learning_rate,
         .beta1 = config_.beta1,
         .beta2 = config_.beta2,
         .epsilon = config_.epsilon,
         .weight_decay = config_.weight_decay,
         .grad_scale = step.grad_scale,
         .step = step.number});
}

double AdamW::flops(const Parameter& parameter) const {
  return kAdamWFlops * static_cast<double>(parameter.full_shape.num_elements());
}

}  // namespace ladder
