// The choice of the optimizer, and what SGD and Muon have to know.
#pragma once

#include <optional>
#include <string>

#include "common/io/cli11.h"
#include "common/model/config.h"
#include "common/model/optimizer.h"
#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/lesson_info.h"

namespace ladder {

struct OptimizerFlags {
  std::optional<std::string> optimizer, muon_scale, muon_qkv;
  std::optional<double> muon_momentum, momentum;
  bool nesterov = false;

  void add_to(FlagTable& flags);
  // Throws a UserError if a flag cannot be honoured: the lesson gives a rule no whole matrices,
  // none of the model is trained, q, k and v cannot be taken together, or the flag is another
  // rule's.
  void resolve(OptimizerConfig& config, const ModelConfig& model, const LessonInfo& lesson) const;

 private:
  // Does the same for what SGD has, or has not.
  void resolve_sgd(OptimizerConfig& config) const;

  const CLI::App* app_ = nullptr;
};

}  // namespace ladder
