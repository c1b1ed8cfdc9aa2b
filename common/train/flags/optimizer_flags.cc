#include "common/train/flags/optimizer_flags.h"

#include <algorithm>

#include "common/io/text.h"
#include "common/model/description.h"
#include "common/model/train_choice.h"
#include "common/optimizer/rule.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

void check_matrices(const ModelConfig& config) {
  for (const UnitSpec& unit : describe(config).units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.trainable && parameter.matrix.count > 0) return;
    }
  }
  throw UserError(concat("--optimizer muon: with ", train_text(config),
                         " no matrix of a block is trained; take --optimizer adamw"));
}

}  // namespace

void OptimizerFlags::add_to(FlagTable& flags) {
  app_ = &flags.app();
  flags.heading("Training");
  const auto add = [&](const char* name, auto& value, const char* text) {
    return flags.add(name, value, text);
  };
  add("--optimizer", optimizer,
      "adamw; sgd; or muon: it makes the updates of the blocks' matrices orthogonal, and AdamW "
      "updates the rest [adamw; 20_muon: muon]")
      ->check(CLI::IsMember(optimizer_names()).description(""));
  add("--momentum", momentum, "SGD [0]; Muon [0.95]")->check(real(0, 0.999999));
  add("--nesterov", nesterov, "SGD with momentum looks one step ahead");
  add("--muon-scale", muon_scale,
      "How large Muon's updates are. rms: as AdamW's; spectral: by outputs / inputs [rms]")
      ->check(CLI::IsMember({"rms", "spectral"}).description(""));
  add("--muon-qkv", muon_qkv,
      "Whether GPT-2's q, k and v are three matrices: apart, or together [apart]")
      ->check(CLI::IsMember({"apart", "together"}).description(""));
  add("--muon-momentum", muon_momentum, "Muon [0.95]")->check(real(0, 0.999999));
}

void OptimizerFlags::resolve_sgd(OptimizerConfig& config) const {
  for (const char* const flag : {"--beta1", "--beta2", "--epsilon"}) {
    const bool is_idle = config.name == "sgd" && app_->count(flag) > 0;
    if (is_idle) throw UserError(concat(flag, " is AdamW's; --optimizer sgd has none"));
  }
  if (momentum && config.name == "adamw") {
    throw UserError("--momentum needs --optimizer sgd or muon");
  }
  if (nesterov && config.name != "sgd") throw UserError("--nesterov needs --optimizer sgd");
  if (nesterov && momentum.value_or(0) == 0) throw UserError("--nesterov needs --momentum above 0");
  if (momentum && muon_momentum) {
    throw UserError("--momentum and --muon-momentum are the same for Muon; give one of them");
  }
  config.nesterov = nesterov;
  if (config.name == "sgd") config.momentum = momentum.value_or(0);
  if (config.name == "muon") config.muon_momentum = momentum.value_or(config.muon_momentum);
}

void OptimizerFlags::resolve(OptimizerConfig& config, const ModelConfig& model,
                             const LessonInfo& lesson) const {
  config.name = optimizer.value_or(lesson.optimizer);
  resolve_sgd(config);
  const Rules rules = make_rules(config);
  const auto needs_matrices = [](const auto& rule) { return rule->needs_matrices(); };
  if (std::ranges::none_of(rules, needs_matrices)) {
    for (const auto& [flag, is_given] : {std::pair("--muon-scale", muon_scale.has_value()),
                                         {"--muon-qkv", muon_qkv.has_value()},
                                         {"--muon-momentum", muon_momentum.has_value()}}) {
      if (is_given) throw UserError(concat(flag, " needs --optimizer muon"));
    }
    return;
  }
  if (!lesson.gives_matrices) {
    throw UserError(concat("--optimizer ", config.name, ": it needs whole matrices, which ",
                           lesson.name, " gives to no rule; lessons 01 to 05, 07, 09, 15, 20 and ",
                           "21 do"));
  }
  check_matrices(model);
  if (muon_scale == "spectral") config.muon_scale = MuonScale::spectral;
  config.splits_qkv = muon_qkv != "together";
  if (!config.splits_qkv && !model.is_gpt2()) {
    throw UserError("--muon-qkv together: only GPT-2 stores q, k and v side by side");
  }
  config.muon_momentum = muon_momentum.value_or(config.muon_momentum);
}

}  // namespace ladder
