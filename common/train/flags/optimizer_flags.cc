#include "common/train/flags/optimizer_flags.h"

#include "common/io/text.h"
#include "common/model/description.h"
#include "common/model/train_choice.h"
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
  flags.heading("Training");
  const auto add = [&](const char* name, auto& value, const char* text) {
    return flags.add(name, value, text);
  };
  add("--optimizer", optimizer,
      "adamw, or muon: it makes the updates of the blocks' matrices orthogonal, and AdamW updates "
      "the rest [adamw; 20_muon: muon]")
      ->check(CLI::IsMember({"adamw", "muon"}).description(""));
  add("--muon-scale", muon_scale,
      "How large Muon's updates are. rms: as AdamW's; spectral: by outputs / inputs [rms]")
      ->check(CLI::IsMember({"rms", "spectral"}).description(""));
  add("--muon-qkv", muon_qkv,
      "Whether GPT-2's q, k and v are three matrices: apart, or together [apart]")
      ->check(CLI::IsMember({"apart", "together"}).description(""));
  add("--muon-momentum", muon_momentum, "Muon [0.95]")->check(real(0, 0.999999));
}

void OptimizerFlags::resolve(OptimizerConfig& config, const ModelConfig& model,
                             const LessonInfo& lesson) const {
  const char* const by_default = lesson.muon == MuonUse::by_default ? "muon" : "adamw";
  if (optimizer.value_or(by_default) == "adamw") {
    for (const auto& [flag, is_given] : {std::pair("--muon-scale", muon_scale.has_value()),
                                         {"--muon-qkv", muon_qkv.has_value()},
                                         {"--muon-momentum", muon_momentum.has_value()}}) {
      if (is_given) throw UserError(concat(flag, " needs --optimizer muon"));
    }
    return;
  }
  if (lesson.muon == MuonUse::never) {
    throw UserError(concat("--optimizer muon: ", lesson.name,
                           " has only AdamW; Muon is in lessons ",
                           "01 to 05, 07, 09, 15, 20 and 21"));
  }
  check_matrices(model);
  config.kind = OptimizerKind::muon;
  if (muon_scale == "spectral") config.muon_scale = MuonScale::spectral;
  config.splits_qkv = muon_qkv != "together";
  if (!config.splits_qkv && !model.is_gpt2()) {
    throw UserError("--muon-qkv together: only GPT-2 stores q, k and v side by side");
  }
  config.muon_momentum = muon_momentum.value_or(config.muon_momentum);
}

}  // namespace ladder
