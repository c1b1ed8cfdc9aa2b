#include "common/train/flags/virtual_flags.h"

#include <array>
#include <utility>

#include "common/cluster/cluster_text.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {

void add_cluster_flags(CLI::App& app, std::string& cluster, std::string& program,
                       const std::string& when, const std::string& group) {
  const auto add = [&](const char* name, std::string& value, const char* text,
                       std::string (*list)()) {
    const auto listed = [list](const std::string& given) {
      if (given == "list") throw CLI::Success(list(), CLI::ExitCodes::Success);
      return std::string();
    };
    app.add_option(name, value, when + text)->check(CLI::Validator(listed, ""))->group(group);
  };
  add("--cluster", cluster,
      "the cluster to simulate, such as h100x8, a100-80x8x64 (64 nodes of 8), laptop, or a file; "
      "list = those that are known",
      cluster_list);
  add("--program", program,
      "whose kernels run there, such as megatron-2022 or a file; list = those that are known [the "
      "lessons']",
      program_list);
}

void VirtualFlags::add_to(CLI::App& app, bool distributed) {
  const char* const group = "Virtual device";
  add_cluster_flags(app, cluster, program, "With --device virtual: ", group);
  app.add_flag("--breakdown", breakdown, "With --device virtual: where a step's time goes")
      ->group(group);
  if (!distributed) return;
  app.add_flag(
         "--fixed-network", fixed_network,
         "With --device virtual: not also with half and twice the network's rate, which takes "
         "two simulations more")
      ->group(group);
  app.add_option("--ranks", num_ranks, "With --device virtual: ranks [one for each device]")
      ->check(whole(1, 1'000'000))
      ->group(group);
}

void VirtualFlags::check(bool is_virtual) const {
  if (is_virtual && cluster.empty()) {
    throw UserError(concat("--device virtual: add --cluster NAME|FILE, such as --cluster h100x8"));
  }
  if (is_virtual) return;
  const char* const given = !cluster.empty()   ? "--cluster"
                            : !program.empty() ? "--program"
                            : breakdown        ? "--breakdown"
                            : fixed_network    ? "--fixed-network"
                            : num_ranks > 0    ? "--ranks"
                                               : nullptr;
  if (given != nullptr) throw UserError(concat(given, ": needs --device virtual"));
}

void VirtualFlags::refuse_values(const RunConfig& config, bool samples) {
  const std::array<std::pair<const char*, bool>, 10> asked = {{
      {"--dump", !config.dump.empty()},
      {"--init", !config.init.empty()},
      {"--init-adapter", !config.init_adapter.empty()},
      {"--task", !config.task.empty()},
      {"--checkpoint", !config.checkpoint.path.empty()},
      {"--export", !config.export_to.empty()},
      {"--metrics", !config.metrics.empty()},
      {"--tensorboard", !config.tensorboard.empty()},
      {"--tokenizer", !config.tokenizer.empty()},
      {"--sample or --prompt", samples},
  }};
  for (const auto& [flag, is_given] : asked) {
    if (!is_given) continue;
    throw UserError(concat(flag,
                           ": the virtual device computes no values; leave it out, or take a "
                           "real device"));
  }
}

}  // namespace ladder
