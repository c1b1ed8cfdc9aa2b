// Compares a training step of GPT-2 124M that is split by tensor or pipeline parallelism with the
// same step on one rank:
//   bazel build //lessons/09_3d_parallel:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/09_3d_parallel/benchmark --tokens 256 --batch 8
//
// Every rank has one thread. Both trainers exist at once and take turns, so that other programs on
// the machine disturb both alike. It prints medians over the rounds: of the slowest rank's
// milliseconds, and of how many times faster the split step is within a round.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common/train/rank_benchmark.h"
#include "kernels/runtime/median.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"

namespace ladder {
namespace {

template <Trainer T>
void compare(RankBenchmark& ground, const std::string& name, size_t micro_batch_size,
             const typename T::Flags& flags = {}) {
  RunConfig config = ground.config();
  config.micro_batch_size = micro_batch_size;
  const TrainerContext base = ground.context();
  const ProcessGrid grid = T::arrange(flags, ground.ranks().size(), ground.ranks().rank());
  GridGroups groups(ground.ranks(), grid);
  const RankContext ranks = {grid, ground.ranks(), &groups, base.ranks->registered};
  const auto context = [&](const RankContext* with) {
    return TrainerContext{config,           base.corpus, base.device_memory,
                          base.host_memory, base.stream, with};
  };
  T split(context(&ranks), flags);
  split.state().initialize();
  std::optional<SingleGpuTrainer> single;
  if (ground.ranks().rank() == 0) {
    single.emplace(context(nullptr), SingleGpuTrainer::Flags{});
    single->state().initialize();
  }
  std::vector<double> single_ms, split_ms, ratios;
  for (size_t round = 0; round <= ground.options().rounds; ++round) {
    const double before = ground.ms_of([&] {
      if (single) single->step();
    });
    const double own = ground.ms_of([&] { split.step(); });
    if (round == 0) continue;  // touches the memory
    single_ms.push_back(before);
    split_ms.push_back(own);
    ratios.push_back(before / own);
  }
  if (ground.ranks().rank() != 0) return;
  std::printf("%-34s %8.0f ms, one rank %8.0f ms, %.2f times as fast\n", name.c_str(),
              median(split_ms), median(single_ms), median(ratios));
  if constexpr (requires { T::describe(config, grid, flags); }) {
    std::printf("%s", T::describe(config, grid, flags).c_str());
  }
  std::fflush(stdout);
}

void measure(RankBenchmark& ground) {
  const auto [tokens, batch, rounds] = ground.options();
  if (ground.ranks().rank() == 0) {
    std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread, medians of %zu rounds\n", batch,
                tokens, ground.ranks().size(), rounds);
  }
  compare<TensorParallelTrainer>(ground, "07_tensor_parallel", batch);
  compare<PipelineTrainer>(ground, "08_pipeline_parallel, 1f1b", 1);
  compare<PipelineTrainer>(ground, "08_pipeline_parallel, gpipe", 1,
                           {.schedule = ScheduleKind::gpipe});
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  return ladder::run_rank_benchmark(
      argc, argv, "Lessons 07 and 08 against one rank", [](CLI::App&) {}, ladder::measure);
}
