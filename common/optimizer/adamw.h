// AdamW as a rule: it keeps a running mean of each element's gradient and one of its square
// (kernels/adamw.h has the formula). [Loshchilov19]
#pragma once

#include "common/optimizer/rule.h"

namespace ladder {

class AdamW final : public UpdateRule {
 public:
  explicit AdamW(const OptimizerConfig& config) : config_(config) {}

  std::string_view name() const override { return "adamw"; }
  bool takes(const MatrixForm&) const override { return true; }
  std::vector<std::string_view> state() const override;
  void update(Stream& stream, const std::vector<UpdateTensors>& tensors,
              const UpdateStep& step) override;
  double flops(const Parameter& parameter) const override;

 private:
  OptimizerConfig config_;
};

}  // namespace ladder
