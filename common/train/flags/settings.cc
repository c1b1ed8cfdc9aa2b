#include "common/train/flags/settings.h"

#include "common/train/flags/alike.h"
#include "common/train/flags/inputs.h"

namespace ladder {

std::map<std::string, std::string> settings_of(const RunConfig& config, const Corpus& corpus) {
  std::map<std::string, std::string> settings = {{data_flag(config), identity_of(corpus)}};
  if (config.optimizer.kind == OptimizerKind::muon) settings["--optimizer"] = "muon";
  for (const auto& [name, flag] : config.flags) {
    const ComparedBy by = flag.traits.compared.value_or(ComparedBy::value);
    if (by == ComparedBy::in_run) settings[name] = flag.traits.in_run(config);
    if (by == ComparedBy::value && !flag.is_default) settings.try_emplace(name, flag.value);
  }
  return settings;
}

}  // namespace ladder
