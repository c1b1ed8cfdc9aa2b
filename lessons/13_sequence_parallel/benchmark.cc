// Compares a training step of GPT-2 124M that also splits tokens with lesson 07's:
//   bazel build //lessons/13_sequence_parallel:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/13_sequence_parallel/benchmark --tokens 256 --batch 8
//
// Every rank has one thread. All trainers exist at once and take turns, so that other programs on
// the machine disturb all alike. It prints medians over the rounds: of the slowest rank's
// milliseconds, and of the time of a step as a multiple of lesson 07's within a round.
#include <array>
#include <cstdio>
#include <vector>

#include "common/train/rank_benchmark.h"
#include "kernels/runtime/median.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/13_sequence_parallel/trainer.h"

namespace ladder {
namespace {

void measure(RankBenchmark& ground) {
  const auto [tokens, batch, rounds] = ground.options();
  RunConfig config = ground.config();
  config.micro_batch_size = batch;
  const TrainerContext base = ground.context();
  const size_t size = ground.ranks().size();
  const ProcessGrid grid = {.tensor_size = size, .rank = ground.ranks().rank()};
  GridGroups groups(ground.ranks(), grid);
  const RankContext ranks = {grid, ground.ranks(), &groups, base.ranks->registered};
  const TrainerContext context = {config,           base.corpus, base.device_memory,
                                  base.host_memory, base.stream, &ranks};
  TensorParallelTrainer whole(context, {});
  SequenceParallelTrainer again(context, {});
  SequenceParallelTrainer keep(context, {.tensor = {}, .tokens = {.gathered = "keep"}});
  for (ModelState* state : {&whole.state(), &again.state(), &keep.state()}) state->initialize();

  std::array<std::vector<double>, 3> ms, ratios;
  for (size_t round = 0; round <= rounds; ++round) {
    const std::array<double, 3> times = {ground.ms_of([&] { whole.step(); }),
                                         ground.ms_of([&] { again.step(); }),
                                         ground.ms_of([&] { keep.step(); })};
    if (round == 0) continue;  // touches the memory
    for (size_t i = 0; i < times.size(); ++i) {
      ms[i].push_back(times[i]);
      ratios[i].push_back(times[i] / times[0]);
    }
  }
  if (ground.ranks().rank() != 0) return;
  std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread, medians of %zu rounds\n", batch, tokens,
              size, rounds);
  const char* const names[] = {"07_tensor_parallel", "13_sequence_parallel, again",
                               "13_sequence_parallel, keep"};
  for (size_t i = 0; i < ms.size(); ++i) {
    std::printf("%-30s %8.0f ms, %.3f of lesson 07's\n", names[i], median(ms[i]),
                median(ratios[i]));
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  return ladder::run_rank_benchmark(
      argc, argv, "Lesson 13 against lesson 07", [](CLI::App&) {}, ladder::measure);
}
