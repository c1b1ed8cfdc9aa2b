// Compares the schedules on a training step of GPT-2 124M with lesson 08's 1F1B:
//   bazel build //lessons/16_pipeline_schedules:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/16_pipeline_schedules/benchmark --tokens 256 --batch 8
//
// Every rank has one thread, and a micro-batch is one sequence. Both trainers exist at once and
// take turns, so that other programs on the machine disturb both alike. It prints medians over the
// rounds, and what the simulator predicts with the times that were measured.
#include <cstdio>
#include <string>
#include <vector>

#include "common/train/rank_benchmark.h"
#include "kernels/runtime/median.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"

namespace ladder {
namespace {

void compare(RankBenchmark& ground, Order order) {
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
  ScheduleTrainer after(context, {.order = order});
  before.state().initialize();
  after.state().initialize();
  std::vector<double> before_ms, after_ms, ratios;
  for (size_t round = 0; round <= ground.options().rounds; ++round) {
    const double theirs = ground.ms_of([&] { before.step(); });
    const double ours = ground.ms_of([&] { after.step(); });
    if (round == 0) continue;  // touches the memory
    before_ms.push_back(theirs);
    after_ms.push_back(ours);
    ratios.push_back(theirs / ours);
  }
  const std::string bubbles = before.report() + after.report();
  if (ground.ranks().rank() != 0) return;
  std::printf("%-12s %8.0f ms, lesson 08's 1f1b %8.0f ms, %.3f times as fast%s\n",
              std::string(name_of(order)).c_str(), median(after_ms), median(before_ms),
              median(ratios), bubbles.c_str());
  std::fflush(stdout);
}

void measure(RankBenchmark& ground) {
  for (Order order : kOrders) compare(ground, order);
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  return ladder::run_rank_benchmark(
      argc, argv, "Lesson 16's schedules against lesson 08's", [](CLI::App&) {}, ladder::measure);
}
