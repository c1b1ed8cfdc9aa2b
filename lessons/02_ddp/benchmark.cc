// A training step of GPT-2 124M on several ranks of one thread each, against its floor:
//   bazel build //lessons/02_ddp:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/02_ddp/benchmark --tokens 64 --rounds 7
//
// The floor is that of one rank's share of the batch (common/train/step_floor.h), measured on all
// ranks at once, and one all_reduce of the gradients at the speed of memory, one after the other: a
// step in which nothing is hidden and nothing else happens. Each round times the floor's two parts,
// the step, and a step of lesson 01 with the whole batch on one rank and one thread while the
// others sleep. Printed: every round, then medians and minima of the times over the rounds and
// their ratios: on a machine where something else now and then takes a core the minima tell more.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <vector>

#include "common/comm/job.h"
#include "common/train/step_floor.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/threads.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"

namespace ladder {
namespace {

struct Options {
  size_t tokens = 256, batch = 4, rounds = 3;
  DdpTrainer::Flags flags;
};

Options parse(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Lesson 02's step against its floor");
  app.add_option("--tokens", options.tokens, "Tokens of a sequence")->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences of the global batch")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Measured rounds")->capture_default_str();
  options.flags.add_to(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    throw UserError(error.what());
  }
  return options;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Everything that is measured, on one rank.
class Bench {
 public:
  Bench(Job& job, const Options& options)
      : ranks_(job.communicator()),
        config_(make_config(options, ranks_.size())),
        whole_batch_(make_config(options, 1)),
        grid_{.data_size = ranks_.size(), .rank = ranks_.rank()},
        trainer_({config_, grid_, corpus_, device_, host_, stream_, &ranks_, job.registered()},
                 options.flags),
        floor_(config_.model, config_.dtype, config_.micro_batch_size * options.tokens) {
    if (ranks_.rank() == 0) {
      alone_.emplace(TrainerContext{whole_batch_, kOneRank, corpus_, device_, host_, stream_},
                     SingleGpuTrainer::Flags());
    }
  }

  // Milliseconds.
  struct Round {
    double floor, reduction, step, alone;
  };
  Round round() {
    return {time_of([&] { floor_.run(); }), time_of([&] { floor_.all_reduce(ranks_.size()); }),
            time_of([&] { trainer_.step(); }), time_of([&] {
              if (alone_) alone_->step();
            })};
  }

  // Milliseconds a step that the gradients' reductions took in all, and were waited for.
  std::pair<double, double> reduction_ms(size_t steps) const {
    const Traffic t = ranks_.ledger().entries().at({Purpose::gradient, Collective::all_reduce});
    const double scale = 1e3 / static_cast<double>(steps);
    return {t.busy_seconds * scale, t.exposed_seconds * scale};
  }

 private:
  static constexpr ProcessGrid kOneRank = {};

  static RunConfig make_config(const Options& options, size_t num_ranks) {
    RunConfig config;
    config.model = {12, 12, 768, 50257, options.tokens};
    config.global_batch_size = options.batch;
    config.micro_batch_size = options.batch / num_ranks;
    return config;
  }

  // Of the slowest rank; all begin together.
  template <class Body>
  double time_of(Body body) {
    ranks_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    body();
    double ms = 1e3 * seconds_since(begin);
    const TensorView number(&ms, DType::fp64, DeviceType::cpu, {1});
    ranks_.all_reduce(stream_, number, {.reduction = Reduction::max}).wait(stream_);
    return ms;
  }

  Communicator& ranks_;
  RunConfig config_, whole_batch_;
  ProcessGrid grid_;
  Corpus corpus_ = Corpus::king_james();
  Memory device_{DeviceType::cpu, "device", 0}, host_{DeviceType::cpu, "host", 0};
  Stream stream_{DeviceType::cpu};
  DdpTrainer trainer_;
  StepFloor floor_;
  std::optional<SingleGpuTrainer> alone_;  // on rank 0
};

// One line of results from the rounds' values, each of them by `choose`: the median, or the least.
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

void measure(Job& job, const Options& options) {
  set_num_threads(1);
  Bench bench(job, options);
  bench.round();  // touches the memory
  std::vector<Bench::Round> rounds;
  for (size_t i = 0; i < options.rounds; ++i) rounds.push_back(bench.round());
  if (job.rank() != 0) return;
  std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread\n", options.batch, options.tokens,
              job.size());
  for (const Bench::Round& round : rounds) print_line("", {round}, median);
  print_line("median", rounds, median);
  print_line("best", rounds, [](const std::vector<double>& v) { return std::ranges::min(v); });
  const auto [busy, exposed] = bench.reduction_ms(options.rounds + 1);
  std::printf("reductions of a step take %.0f ms, the step waits %.0f ms for them\n", busy,
              exposed);
}

int run(int argc, char** argv) {
  Job job;
  try {
    const Options options = parse(argc, argv);
    if (job.size() < 2 || options.batch % job.size() != 0) {
      throw UserError("start it by tools/mpirun -n 2, or with another divisor of --batch");
    }
    job.connect({});
    measure(job, options);
    return 0;
  } catch (const std::exception& error) {
    job.fail(concat("error: ", error.what()), 1);
    return 1;
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) { return ladder::run(argc, argv); }
