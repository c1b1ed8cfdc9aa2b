#include "common/optimizer/rule.h"

#include <algorithm>
#include <cstdlib>

#include "common/io/text.h"
#include "common/model/muon.h"
#include "common/model/muon_homes.h"
#include "common/model/slices.h"
#include "common/optimizer/adamw.h"
#include "common/optimizer/sgd.h"

namespace ladder {
namespace {

// Muon, for the weights of linear layers in blocks (muon.h). It keeps momentum, under the name of
// AdamW's first moment.
class MuonRule final : public UpdateRule {
 public:
  MuonRule(const OptimizerConfig& config, MatrixUpdate matrices)
      : config_(config), matrices_(std::move(matrices)) {}

  std::string_view name() const override { return "muon"; }
  bool takes(const MatrixForm& form) const override { return is_muons(form); }
  bool needs_matrices() const override { return true; }
  std::vector<std::string_view> state() const override { return {kExpAvg}; }
  void update(Stream& stream, const std::vector<UpdateTensors>& tensors,
              const UpdateStep& step) override {
    check(matrices_ != nullptr, "Muon: nobody gives it whole matrices");
    matrices_(stream, tensors, step);
  }
  double flops(const Parameter& parameter) const override { return muon_flops(config_, parameter); }

 private:
  OptimizerConfig config_;
  MatrixUpdate matrices_;
};

}  // namespace

Rules make_rules(const OptimizerConfig& config, const MatrixUpdate& matrices) {
  check(is_optimizer(config.name), "make_rules: no such optimizer");
  Rules rules;
  if (config.name == "muon") rules.push_back(std::make_unique<MuonRule>(config, matrices));
  if (config.name == "sgd") {
    rules.push_back(std::make_unique<Sgd>(config));
  } else {
    rules.push_back(std::make_unique<AdamW>(config));
  }
  return rules;
}

std::vector<std::string> optimizer_names() { return {"adamw", "sgd", "muon"}; }

bool is_optimizer(std::string_view name) { return std::ranges::count(optimizer_names(), name) > 0; }

OptimizerSettings optimizer_settings(const OptimizerConfig& config) {
  OptimizerSettings settings = {{"--optimizer", config.name}};
  if (config.name == "sgd") settings["--momentum"] = shortest_text(config.momentum);
  return settings;
}

OptimizerConfig optimizer_of(const OptimizerSettings& settings) {
  OptimizerConfig optimizer;
  const auto name = settings.find("--optimizer");
  if (name != settings.end()) optimizer.name = name->second;
  const auto momentum = settings.find("--momentum");
  if (momentum != settings.end())
    optimizer.momentum = std::strtod(momentum->second.c_str(), nullptr);
  return optimizer;
}

std::string other_state(const OptimizerConfig& then, const OptimizerConfig& now) {
  if (then.name != now.name) return concat("--optimizer was ", then.name);
  const bool as_before = now.name != "sgd" || (then.momentum == 0) == (now.momentum == 0);
  return as_before ? "" : concat("--momentum was ", then.momentum);
}

bool is_update_kernel(std::string_view kernel) {
  return kernel == "adamw" || kernel == "scale" || kernel == "add_scaled";
}

size_t rule_of(const Rules& rules, const MatrixForm& form) {
  const auto takes = [&](const auto& rule) { return rule->takes(form); };
  const auto rule = std::ranges::find_if(rules, takes);
  check(rule != rules.end(), "rule_of: no rule takes a parameter");
  return static_cast<size_t>(rule - rules.begin());
}

bool keeps(const OptimizerConfig& config, std::string_view kind, const ParameterSpec& parameter) {
  if (kind == kParam || !parameter.trainable) return kind == kParam;
  if (kind == kGrad) return true;
  const Rules rules = make_rules(config);
  const auto state = rules[rule_of(rules, parameter.matrix)]->state();
  return std::ranges::find(state, kind) != state.end();
}

}  // namespace ladder
