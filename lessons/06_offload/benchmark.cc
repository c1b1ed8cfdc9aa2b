// Compares a training step of GPT-2 124M in lessons 03 to 06 with lesson 02's, on ranks of one
// thread:
//   bazel build //lessons/06_offload:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/06_offload/benchmark --tokens 256 --rounds 3
//
// Both trainers of a pair exist at once and take turns, so that other programs on the machine
// disturb both alike. It prints medians over the rounds: of the slowest rank's milliseconds, and of
// the ratios within a round. --lesson 03_zero1 measures only that lesson.
#include <cstdio>
#include <string>
#include <vector>

#include "common/train/rank_benchmark.h"
#include "kernels/runtime/median.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"

namespace ladder {
namespace {

template <Trainer T>
void compare(RankBenchmark& ground, const std::string& only, const std::string& name,
             const typename T::Flags& flags = {}) {
  if (!name.starts_with(only)) return;
  DdpTrainer ddp(ground.context(), {});
  T trainer(ground.context(), flags);
  ddp.state().initialize();
  trainer.state().initialize();
  std::vector<double> ddp_ms, ms, ratios;
  for (size_t round = 0; round <= ground.options().rounds; ++round) {
    const double before = ground.ms_of([&] { ddp.step(); });
    const double own = ground.ms_of([&] { trainer.step(); });
    if (round == 0) continue;  // touches the memory
    ddp_ms.push_back(before);
    ms.push_back(own);
    ratios.push_back(own / before);
  }
  if (ground.ranks().rank() != 0) return;
  std::printf("%-34s %8.0f ms, lesson 02 %8.0f ms, ratio %.3f\n", name.c_str(), median(ms),
              median(ddp_ms), median(ratios));
  std::fflush(stdout);
}

void measure(RankBenchmark& ground, const std::string& only) {
  const auto [tokens, batch, rounds] = ground.options();
  if (ground.ranks().rank() == 0) {
    std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread, medians of %zu rounds\n", batch,
                tokens, ground.ranks().size(), rounds);
  }
  compare<Zero1Trainer>(ground, only, "03_zero1");
  compare<Zero2Trainer>(ground, only, "04_zero2");
  compare<Zero3Trainer>(ground, only, "05_zero3");
  compare<OffloadTrainer>(ground, only, "06_offload");
  compare<OffloadTrainer>(ground, only, "06_offload stage 3 with parameters",
                          {.zero_stage = 3, .offload_parameters = true, .gather = {}});
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  std::string only;
  return ladder::run_rank_benchmark(
      argc, argv, "Lessons 03 to 06 against lesson 02",
      [&](CLI::App& app) { app.add_option("--lesson", only, "Only what begins with this"); },
      [&](ladder::RankBenchmark& ground) { ladder::measure(ground, only); });
}
