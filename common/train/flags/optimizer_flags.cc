#include "common/train/flags/optimizer_flags.h"

#include <algorithm>

#include "common/io/text.h"
#include "common/model/description.h"
#include "common/model/train_choice.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns whether the value is the second of the two, or throws a UserError.
bool is_second(const char* flag, const std::string& value, const char* first, const char* second) {
  if (value != first && value != second) {
    throw UserError(concat(flag, " ", value, ": expected ", first, " or ", second));
  }
  return value == second;
}

void check_matrices(const ModelConfig& config) {
  for (const UnitSpec& unit : describe(config).units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.trainable && parameter.matrix.count > 0) return;
    }
  }
  throw UserError(
      concat("--optimizer muon: with ", train_text(config), " no matrix of a block is trained"));
}

}  // namespace

void OptimizerFlags::add_to(CLI::App& app) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group("Training");
  };
  add("--optimizer", optimizer,
      "adamw, or muon: it makes the updates of the blocks' matrices orthogonal, and AdamW updates "
      "the rest [adamw]");
  add("--muon-scale", muon_scale,
      "How large Muon's updates are. rms: as AdamW's; spectral: by outputs / inputs [rms]");
  add("--muon-qkv", muon_qkv,
      "Whether GPT-2's q, k and v are three matrices: apart, or together [apart]");
  add("--muon-momentum", muon_momentum, "Muon [0.95]")->check(real(0, 0.999999));
}

void OptimizerFlags::resolve(OptimizerConfig& config, const ModelConfig& model,
                             const LessonInfo& lesson) const {
  if (!is_second("--optimizer", optimizer, "adamw", "muon")) {
    for (const auto& [flag, is_given] : {std::pair("--muon-scale", muon_scale.has_value()),
                                         {"--muon-qkv", muon_qkv.has_value()},
                                         {"--muon-momentum", muon_momentum.has_value()}}) {
      if (is_given) throw UserError(concat(flag, " needs --optimizer muon"));
    }
    return;
  }
  if (!lesson.has_muon) {
    throw UserError(concat("--optimizer muon: ", lesson.name,
                           " has only AdamW; take 01_single_gpu ",
                           "or 02_ddp, whose ranks have the whole matrices that Muon needs"));
  }
  check_matrices(model);
  config.kind = OptimizerKind::muon;
  if (is_second("--muon-scale", muon_scale.value_or("rms"), "rms", "spectral")) {
    config.muon_scale = MuonScale::spectral;
  }
  config.splits_qkv = !is_second("--muon-qkv", muon_qkv.value_or("apart"), "apart", "together");
  if (!config.splits_qkv && !model.is_gpt2()) {
    throw UserError("--muon-qkv together: only GPT-2 stores q, k and v side by side");
  }
  config.muon_momentum = muon_momentum.value_or(config.muon_momentum);
}

}  // namespace ladder
