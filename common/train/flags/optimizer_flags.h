// The choice of the optimizer, and what Muon has to know.
#pragma once

#include <optional>
#include <string>

#include "common/model/config.h"
#include "common/model/optimizer.h"
#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/lesson_info.h"

namespace ladder {

struct OptimizerFlags {
  std::optional<std::string> optimizer, muon_scale, muon_qkv;
  std::optional<double> muon_momentum;

  void add_to(FlagTable& flags);
  // Throws a UserError if a flag cannot be honoured: the lesson has no Muon, no matrix of the model
  // is trained, q, k and v cannot be taken together, or the flag is Muon's in a run with AdamW.
  void resolve(OptimizerConfig& config, const ModelConfig& model, const LessonInfo& lesson) const;
};

}  // namespace ladder
