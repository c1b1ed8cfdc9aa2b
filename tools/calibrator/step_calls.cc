#include "tools/calibrator/step_calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "common/train/full_tensors.h"
#include "common/train/inputs.h"
#include "common/train/options.h"
#include "common/train/ranks.h"
#include "common/virtual/lazy_memory.h"
#include "common/virtual/transport.h"
#include "tools/calibrator/lessons.h"
#include "tools/calibrator/probe.h"

namespace ladder {
namespace {

// Notes down what is called. All operations take the same time, since only their order needs any.
class Notes final : public TimeModel {
 public:
  DeviceType device() const override { return DeviceType::cpu; }
  double kernel_seconds(DeviceType, const KernelCall& call) const override {
    CountedCall& noted = calls_[key_of(call)];
    noted.call = call;
    ++noted.count;
    return kSeconds;
  }
  double copy_seconds(DeviceType to, DeviceType, size_t bytes) const override {
    return kernel_seconds(
        to,
        {"copy", DType::fp32, {.bytes_read = number_of(bytes), .bytes_written = number_of(bytes)}});
  }
  double launch_seconds() const override { return 0; }
  double collective_seconds(Collective, const std::vector<size_t>&, size_t) const override {
    return kSeconds;
  }
  double message_seconds(size_t, size_t, size_t) const override { return kSeconds; }
  Port port_between(const std::vector<size_t>&) const override { return Port::inside; }
  double compute_taken(Port) const override { return 0; }

  std::vector<CountedCall> calls() const {
    std::vector<CountedCall> all;
    for (const auto& [key, call] : calls_) all.push_back(call);
    return all;
  }

 private:
  static constexpr double kSeconds = 1e-6;
  mutable std::map<decltype(key_of(KernelCall())), CountedCall> calls_;
};

// A rank's step.
struct Rank {
  Rank(const RunConfig& config, const ProcessGrid& grid_, MemorySource& host_memory)
      : grid(grid_),
        device(config.device, "device", 0, no_memory()),
        host(DeviceType::cpu, "host", 0, host_memory) {}

  void run(const Program& program, const RunConfig& config, const Corpus& corpus, Engine& engine);

  ProcessGrid grid;
  Memory device, host;
};

void Rank::run(const Program& program, const RunConfig& config, const Corpus& corpus,
               Engine& engine) {
  Stream stream(config.device);
  Communicator world(std::make_unique<SimulatedTransport>(engine, grid, config.device));
  std::optional<GridGroups> groups;
  if (program.arrange) groups.emplace(world, grid);
  const RankContext context = {grid, world, groups ? &*groups : nullptr, &no_memory()};
  const TrainerCalls trainer = program.make({.config = config,
                                             .corpus = corpus,
                                             .device_memory = device,
                                             .host_memory = host,
                                             .stream = stream,
                                             .ranks = &context});
  trainer.step();
  stream.synchronize();
}

// Returns the run's configuration as the lesson's own program makes it of the flags.
RunConfig config_of(const LessonRun& run, const Program& program, size_t num_ranks) {
  std::vector<std::string> words = {run.lesson, "--device", "virtual", "--cluster", "laptop"};
  if (program.is_distributed) words.insert(words.end(), {"--ranks", concat(num_ranks)});
  words.insert(words.end(), run.flags.begin(), run.flags.end());
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  Options options(program.lesson, program.is_distributed, program.add_flags);
  if (!options.parse(static_cast<int>(arguments.size()), arguments.data())) {
    throw UserError("--help: of a lesson; tools/run shows it");
  }
  RunConfig config = options.resolve(program.grid(num_ranks, 0));
  if (program.adjust) program.adjust(config);
  return config;
}

}  // namespace

StepCalls calls_of_step(const LessonRun& run, size_t num_ranks) {
  const Program program = program_of(run.lesson);
  if (!program.is_distributed && num_ranks > 1) {
    throw UserError(concat("--lesson ", run.lesson, ": it runs on one rank"));
  }
  const RunConfig config = config_of(run, program, num_ranks);
  const Corpus corpus = open_corpus(config);
  const Notes notes;
  LazyMemory host_memory;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(config, program.grid(num_ranks, rank), host_memory));
  }
  Engine engine(notes, num_ranks);
  engine.run([&](size_t rank) { ranks[rank]->run(program, config, corpus, engine); });
  StepCalls step = {.kernels = notes.calls()};
  for (const auto& rank : ranks) {
    step.bytes = std::max(step.bytes, rank->device.peak().total() + rank->host.peak().total());
  }
  return step;
}

}  // namespace ladder
