// A training step of GPT-2 124M on several ranks of one thread each, against its floor:
//   bazel build //lessons/02_ddp:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/02_ddp/benchmark --tokens 64 --rounds 7
//
// The floor has two parts: that of one rank's share of the batch (common/train/bench/step_floor.h),
// measured on all ranks at once, and one all_reduce of the gradients at the speed of memory. It is
// a step in which nothing overlaps and nothing else happens. Each round times the two parts, the
// step, and a step of lesson 01 with the whole batch on one rank while the others sleep. It prints
// every round, then medians and minima of the times and their ratios. If other programs now and
// then take a core, the minima tell more.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "common/train/bench/rank_benchmark.h"
#include "common/train/bench/step_floor.h"
#include "kernels/runtime/median.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"

namespace ladder {
namespace {

// What one rank needs to measure a round.
class Bench {
 public:
  Bench(RankBenchmark& ground, const DdpTrainer::Flags& flags)
      : ground_(ground),
        trainer_(ground.context(), flags),
        floor_(ground.config().model, ground.config().dtype,
               ground.config().micro_batch_size * ground.options().tokens) {
    if (ground.ranks().rank() == 0) {
      alone_.emplace(ground.context_alone(), SingleGpuTrainer::Flags());
      alone_->state().initialize();
    }
    trainer_.state().initialize();
  }

  // The times of one round, in milliseconds.
  struct Round {
    double floor, reduction, step, alone;
  };
  Round round() {
    return {ground_.ms_of([&] { floor_.run(); }),
            ground_.ms_of([&] { floor_.all_reduce(ground_.ranks().size()); }),
            ground_.ms_of([&] { trainer_.step(); }), ground_.ms_of([&] {
              if (alone_) alone_->step();
            })};
  }

  // Returns the milliseconds a step that the gradients' reductions took, and those for which
  // computation waited.
  std::pair<double, double> reduction_ms(size_t steps) const {
    const TrafficEntries entries = ground_.ranks().ledger().entries();
    const Traffic t = entries.at({Purpose::gradient, Collective::all_reduce});
    const double scale = 1e3 / static_cast<double>(steps);
    return {t.busy_seconds * scale, t.exposed_seconds * scale};
  }

 private:
  RankBenchmark& ground_;
  DdpTrainer trainer_;
  StepFloor floor_;
  std::optional<SingleGpuTrainer> alone_;  // on rank 0
};

// Prints one line of results. `choose` makes one value of those of all rounds: the median or the
// minimum.
template <class Choose>
void print_line(const char* name, const std::vector<Bench::Round>& rounds, Choose choose) {
  const auto of = [&](auto value) {
    std::vector<double> values;
    for (const Bench::Round& round : rounds) values.push_back(value(round));
    return choose(values);
  };
  std::printf(
      "%-8s floor %.0f + %.0f ms, step %.0f ms, step / floor %.3f, one rank %.0f ms, one rank / "
      "step %.2f\n",
      name, of([](auto r) { return r.floor; }), of([](auto r) { return r.reduction; }),
      of([](auto r) { return r.step; }),
      of([](auto r) { return r.step; }) / of([](auto r) { return r.floor + r.reduction; }),
      of([](auto r) { return r.alone; }),
      of([](auto r) { return r.alone; }) / of([](auto r) { return r.step; }));
}

void measure(RankBenchmark& ground, const DdpTrainer::Flags& flags) {
  const auto [tokens, batch, num_rounds] = ground.options();
  Bench bench(ground, flags);
  bench.round();  // touches the memory
  std::vector<Bench::Round> rounds;
  for (size_t i = 0; i < num_rounds; ++i) rounds.push_back(bench.round());
  if (ground.ranks().rank() != 0) return;
  std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread\n", batch, tokens,
              ground.ranks().size());
  for (const Bench::Round& round : rounds) print_line("", {round}, median);
  print_line("median", rounds, median);
  print_line("best", rounds, [](const std::vector<double>& v) { return std::ranges::min(v); });
  const auto [busy, exposed] = bench.reduction_ms(num_rounds + 1);
  std::printf("reductions of a step take %.0f ms, the step waits %.0f ms for them\n", busy,
              exposed);
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  ladder::DdpTrainer::Flags flags;
  return ladder::run_rank_benchmark(
      argc, argv, "Lesson 02's step against its floor", [&](CLI::App& app) { flags.add_to(app); },
      [&](ladder::RankBenchmark& ground) { ladder::measure(ground, flags); });
}
