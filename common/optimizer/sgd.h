// Stochastic gradient descent as a rule, with momentum or without, as torch.optim.SGD.
#pragma once

#include "common/optimizer/rule.h"

namespace ladder {

// With B a parameter, M its momentum, and G its gradient times grad_scale, plus weight_decay B if
// it is a parameter that decays:
//   M = momentum M + G;  B = B - learning_rate M, or with Nesterov's look ahead
//                        B = B - learning_rate (G + momentum M)
// Without momentum B moves by G. Weight decay is a part of the gradient, and so of the momentum:
// that is torch.optim.SGD, not AdamW's decay.
class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const OptimizerConfig& config) : config_(config) {}

  std::string_view name() const override { return "sgd"; }
  bool takes(const MatrixForm&) const override { return true; }
  std::vector<std::string_view> state() const override;
  void update(Stream& stream, const std::vector<UpdateTensors>& tensors,
              const UpdateStep& step) override;
  double flops(const Parameter& parameter) const override;

 private:
  OptimizerConfig config_;
};

}  // namespace ladder
