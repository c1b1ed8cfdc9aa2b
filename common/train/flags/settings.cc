#include "common/train/flags/settings.h"

#include "common/optimizer/rule.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/inputs.h"

namespace ladder {

std::map<std::string, std::string> settings_of(const RunConfig& config, const Corpus& corpus) {
  std::map<std::string, std::string> settings = {{data_flag(config), identity_of(corpus)}};
  const OptimizerConfig& optimizer = config.optimizer;
  if (optimizer.name != OptimizerConfig().name) {  // checkpoints with AdamW do not name it
    for (const auto& [name, value] : optimizer_settings(optimizer)) settings[name] = value;
  }
  for (const auto& [name, flag] : config.flags) {
    const ComparedBy by = flag.traits.compared.value_or(ComparedBy::value);
    if (by == ComparedBy::in_run) settings[name] = flag.traits.in_run(config);
    if (by == ComparedBy::value && !flag.is_default) settings.try_emplace(name, flag.value);
  }
  return settings;
}

}  // namespace ladder
