#include "common/model/config.h"

#include "kernels/runtime/check.h"

namespace ladder {

const Gpt2Preset& find_preset(std::string_view name) {
  std::string names;
  for (const Gpt2Preset& preset : kGpt2Presets) {
    if (preset.name == name) return preset;
    names += concat(names.empty() ? "" : ", ", preset.name);
  }
  throw UserError(concat("--model ", name, ": no such preset; there are ", names));
}

void check_config(const Gpt2Config& config) {
  if (config.hidden % config.num_heads != 0) {
    throw UserError(
        concat("--heads ", config.num_heads, " does not divide --hidden ", config.hidden));
  }
}

}  // namespace ladder
