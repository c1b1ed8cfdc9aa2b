// A trainer with all that it works with, on the ranks of a group.
#pragma once

#include <optional>

#include "common/comm/communicator.h"
#include "common/train/program/program.h"
#include "common/train/trainer/full_tensors.h"
#include "common/train/trainer/ranks.h"

namespace ladder::testing {

// What sessions train on in place of the built-in text; null = that text.
inline const Corpus* given_corpus = nullptr;

// Collective over `group` wherever the trainer is, and where `registered` is given over the node.
template <class T>
class Session {
 public:
  // Without `registered` all device memory but that of the groups comes from `source`. Tensors are
  // collected over `collecting` where the group has no connections, else over the group.
  Session(const RunConfig& run_config, Communicator& ranks, MemorySource* registered,
          const typename T::Flags& flags = {}, MemorySource* source = nullptr,
          Communicator* collecting = nullptr)
      : config(run_config),
        group(ranks),
        grid(arranged(flags, ranks)),
        device(config.device, "device", 0, source != nullptr ? *source : memory_of(config.device)),
        full_tensors(host, describe(config.model), config.accumulation(),
                     collecting != nullptr ? *collecting : ranks) {
    const Program program = make_program<T>(flags);
    if (program.arrange) groups.emplace(group, grid);
    rank_context.emplace(RankContext{grid, group, groups ? &*groups : nullptr, registered});
    const TrainerContext context{config, corpus(), device, host, stream, &*rank_context};
    trainer.emplace(program.with_plan(context), flags);
    trainer->initialize();
  }
  Session(const Session&) = delete;

  // Full tensors of a kind, on the group's rank 0. Collective.
  void visit(std::string_view kind, const TensorSink& sink) {
    full_tensors.visit(config.optimizer, kind, trainer->slices(kind), stream, sink);
  }

  static const Corpus& corpus() {
    static const Corpus text = Corpus::king_james();
    return given_corpus != nullptr ? *given_corpus : text;
  }

  RunConfig config;
  Communicator& group;
  ProcessGrid grid;
  std::optional<GridGroups> groups;  // of trainers that arrange ranks on several axes
  Memory device, host{DeviceType::cpu, "host", 0, host_memory_for(config.device)};
  Stream stream{config.device};
  FullTensors full_tensors;
  std::optional<RankContext> rank_context;
  std::optional<T> trainer;

 private:
  static ProcessGrid arranged(const typename T::Flags& flags, const Communicator& ranks) {
    return make_program<T>(flags).grid(ranks.size(), ranks.rank());
  }
};

}  // namespace ladder::testing
