// A trainer with all that it works with, on the ranks of a group.
#pragma once

#include <optional>

#include "common/comm/communicator.h"
#include "common/train/run.h"

namespace ladder::testing {

// Collective over `group` wherever the trainer is, and where `registered` is given over the node.
template <Trainer T>
class Session {
 public:
  // Without `registered` all device memory but that of the groups comes from `source`.
  Session(const RunConfig& run_config, Communicator& ranks, MemorySource* registered,
          const typename T::Flags& flags = {}, MemorySource* source = nullptr)
      : config(run_config),
        group(ranks),
        grid(arranged(flags, ranks)),
        device(config.device, "device", 0, source != nullptr ? *source : memory_of(config.device)) {
    if constexpr (Arranges<T>) groups.emplace(group, grid);
    trainer.emplace(TrainerContext{config, grid, corpus(), device, host, stream, &group, registered,
                                   nullptr, groups ? &*groups : nullptr},
                    flags);
  }
  Session(const Session&) = delete;

  static const Corpus& corpus() {
    static const Corpus text = Corpus::king_james();
    return text;
  }

  RunConfig config;
  Communicator& group;
  ProcessGrid grid;
  std::optional<GridGroups> groups;  // of trainers that arrange ranks on several axes
  Memory device, host{DeviceType::cpu, "host", 0, host_memory_for(config.device)};
  Stream stream{config.device};
  std::optional<T> trainer;

 private:
  static ProcessGrid arranged(const typename T::Flags& flags, const Communicator& ranks) {
    if constexpr (Arranges<T>) return T::arrange(flags, ranks.size(), ranks.rank());
    return {.data_size = ranks.size(), .rank = ranks.rank()};
  }
};

}  // namespace ladder::testing
