#include "common/train/run/simulated_rank.h"

#include <memory>
#include <optional>

#include "common/train/flags/options.h"
#include "common/train/trainer/ranks.h"
#include "common/virtual/transport.h"

namespace ladder {

RunConfig resolve_flags(const Program& program, const std::vector<std::string>& flags,
                        size_t num_ranks) {
  std::vector<const char*> arguments = {program.lesson.name};
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());
  Options options(program.lesson, program.add_flags);
  if (!options.parse(static_cast<int>(arguments.size()), arguments.data()).empty()) {
    throw UserError("--help, --version: of a lesson; tools/run shows it");
  }
  RunConfig config = options.resolve(program.grid(num_ranks, 0));
  if (program.adjust) program.adjust(config);
  return config;
}

SimulatedRank::SimulatedRank(const RunConfig& config, const ProcessGrid& grid_,
                             MemorySource& host_memory)
    : grid(grid_),
      device(config.device, "device", config.device_memory, no_memory()),
      host(DeviceType::cpu, "host", config.host_memory, host_memory) {}

void run_simulated_rank(
    const Program& program, const RunConfig& config, const Corpus& corpus, Engine& engine,
    SimulatedRank& rank,
    const std::function<void(const TrainerContext& context, Communicator& world)>& body) {
  Stream stream(config.device);
  Communicator world(std::make_unique<SimulatedTransport>(engine, rank.grid, config.device));
  std::optional<GridGroups> groups;
  if (program.arrange) groups.emplace(world, rank.grid);
  const RankContext context = {rank.grid, world, groups ? &*groups : nullptr, &no_memory()};
  body({.config = config,
        .corpus = corpus,
        .device_memory = rank.device,
        .host_memory = rank.host,
        .stream = stream,
        .ranks = &context},
       world);
}

}  // namespace ladder
