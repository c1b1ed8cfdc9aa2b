#include "common/train/flags/virtual_flags.h"

#include <array>
#include <utility>

#include "common/cluster/cluster_text.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {

void add_cluster_flags(FlagTable& flags, std::string& cluster, std::string& program,
                       const std::string& when) {
  const auto add = [&](const char* name, std::string& value, const char* text,
                       std::string (*list)()) {
    const auto listed = [list](const std::string& given) {
      if (given == "list") throw CLI::Success(list(), CLI::ExitCodes::Success);
      return std::string();
    };
    flags.add(name, value, when + text, CLI::Validator(listed, ""), {.file = FileUse::read});
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

ValueInRun on_real_device(const ValueInRun& in_run) {
  return [in_run](const RunConfig& config) {
    const auto device = config.flags.find("--device");
    const bool is_virtual =
        device != config.flags.end() && device->second.value == VirtualFlags::kDevice;
    return is_virtual ? std::string() : in_run(config);
  };
}

void VirtualFlags::add_to(FlagTable& flags, bool distributed) {
  flags.heading("Virtual device", ComparedBy::nothing);  // it has no state
  add_cluster_flags(flags, cluster, program, "With --device virtual: ");
  flags.add("--breakdown", breakdown, "With --device virtual: where a step's time goes");
  if (!distributed) return;
  flags.add("--fixed-network", fixed_network,
            "With --device virtual: not also with half and twice the network's rate, which takes "
            "two simulations more");
  flags.add("--ranks", num_ranks, "With --device virtual: ranks [one for each device]",
            whole(1, 1'000'000));
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
