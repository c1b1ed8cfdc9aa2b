// Compares the schedules on a training step of GPT-2 124M with lesson 08's 1F1B:
//   bazel build //lessons/16_pipeline_schedules:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/16_pipeline_schedules/benchmark --tokens 256 --batch 8
//
// Every rank has one thread, and a micro-batch is one sequence. All trainers exist at once and take
// turns in each round, so that other programs on the machine disturb them alike. It prints medians
// over the rounds, and the bubbles: as measured, and as the simulator predicts them with the times
// that were measured. With fewer cores than ranks none of this says anything.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/train/rank_benchmark.h"
#include "kernels/runtime/median.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"

namespace ladder {
namespace {

struct Contestant {
  std::string name;
  std::unique_ptr<ScheduleTrainer> trainer;
  std::vector<double> ms, ratios;
};

// Returns the schedule's flags. Any name that is not an order's is "auto".
ScheduleFlags flags_of(const std::string& name, const std::vector<double>& times) {
  ScheduleFlags flags = {.times = times};
  const auto order = std::ranges::find(kOrders, name, [](Order o) { return name_of(o); });
  flags.order = order == std::end(kOrders) ? std::optional<Order>() : *order;
  return flags;
}

void measure(RankBenchmark& ground, const std::vector<std::string>& names,
             const std::vector<double>& times) {
  RunConfig config = ground.config();
  config.micro_batch_size = 1;
  const TrainerContext base = ground.context();
  const ProcessGrid grid =
      ScheduleTrainer::arrange({}, ground.ranks().size(), ground.ranks().rank());
  GridGroups groups(ground.ranks(), grid);
  const RankContext ranks = {grid, ground.ranks(), &groups, base.ranks->registered};
  const TrainerContext context = {config,           base.corpus, base.device_memory,
                                  base.host_memory, base.stream, &ranks};
  PipelineTrainer before(context, {});
  before.state().initialize();
  std::vector<double> before_ms;
  std::vector<Contestant> contestants;
  for (const std::string& name : names) {
    contestants.push_back(
        {name, std::make_unique<ScheduleTrainer>(context, flags_of(name, times)), {}, {}});
    contestants.back().trainer->state().initialize();
  }
  for (size_t round = 0; round <= ground.options().rounds; ++round) {
    const double theirs = ground.ms_of([&] { before.step(); });
    if (round > 0) before_ms.push_back(theirs);
    for (Contestant& contestant : contestants) {
      const double ours = ground.ms_of([&] { contestant.trainer->step(); });
      if (round == 0) continue;  // touches the memory
      contestant.ms.push_back(ours);
      contestant.ratios.push_back(theirs / ours);
    }
  }
  const bool prints = ground.ranks().rank() == 0;
  const std::string report = before.report();
  if (prints)
    std::printf("%-12s %8.0f ms (lesson 08)%s\n", "1f1b", median(before_ms), report.c_str());
  for (Contestant& contestant : contestants) {
    const std::string bubbles = contestant.trainer->report();
    if (!prints) continue;
    std::printf("%-12s %8.0f ms, %.3f times as fast%s\n", contestant.name.c_str(),
                median(contestant.ms), median(contestant.ratios), bubbles.c_str());
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  std::vector<std::string> names = {"1f1b", "interleaved", "zb-h1", "zb-v"};
  std::vector<double> times;
  return ladder::run_rank_benchmark(
      argc, argv, "Lesson 16's schedules against lesson 08's",
      [&](CLI::App& app) {
        app.add_option("--schedules", names,
                       "Those that are compared [1f1b,interleaved,zb-h1,zb-v]")
            ->delimiter(',')
            ->check(
                CLI::IsMember({"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "auto"}));
        app.add_option("--times", times, "For auto: as --times of the lesson")
            ->delimiter(',')
            ->expected(5);
      },
      [&](ladder::RankBenchmark& ground) { ladder::measure(ground, names, times); });
}
