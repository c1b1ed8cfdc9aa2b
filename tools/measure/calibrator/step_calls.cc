#include "tools/measure/calibrator/step_calls.h"

#include <algorithm>
#include <map>
#include <memory>

#include "common/train/flags/inputs.h"
#include "common/train/run/simulated_rank.h"
#include "common/virtual/lazy_memory.h"
#include "tools/measure/calibrator/probe.h"
#include "tools/programs/lessons.h"

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
    return kernel_seconds(to, copy_call(bytes));
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

// Returns the run of the flags, with as much memory as it needs.
RunConfig config_of(const LessonRun& run, const Program& program, size_t num_ranks) {
  std::vector<std::string> flags = {"--device", "virtual", "--cluster", "laptop"};
  if (program.lesson.is_distributed) flags.insert(flags.end(), {"--ranks", concat(num_ranks)});
  flags.insert(flags.end(), run.flags.begin(), run.flags.end());
  RunConfig config = resolve_flags(program, flags, num_ranks);
  config.device_memory = config.host_memory = 0;
  return config;
}

}  // namespace

std::vector<std::string> lessons_to_calibrate() {
  std::vector<std::string> names = lesson_names();
  std::erase_if(names, [](const std::string& name) { return name > "11"; });
  return names;
}

StepCalls calls_of_step(const LessonRun& run, size_t num_ranks) {
  const Program program = program_of(run.lesson);
  if (!program.lesson.is_distributed && num_ranks > 1) {
    throw UserError(concat("--lesson ", run.lesson, ": it runs on one rank"));
  }
  const RunConfig config = config_of(run, program, num_ranks);
  const Corpus corpus = open_corpus(config);
  const Notes notes;
  LazyMemory host_memory;
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    ranks.push_back(
        std::make_unique<SimulatedRank>(config, program.grid(num_ranks, rank), host_memory));
  }
  Engine engine(notes, num_ranks);
  engine.run([&](size_t rank) {
    run_simulated_rank(program, config, corpus, engine, *ranks[rank],
                       [&](const TrainerContext& context, Communicator&) {
                         const auto trainer = program.make(context);
                         trainer->step();
                         context.stream.synchronize();
                       });
  });
  StepCalls step = {.kernels = notes.calls()};
  for (const auto& rank : ranks) {
    step.bytes = std::max(step.bytes, rank->device.peak().total() + rank->host.peak().total());
  }
  return step;
}

}  // namespace ladder
