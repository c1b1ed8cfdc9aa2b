// A training step of GPT-2 124M in lessons 03 to 06 against lesson 02's, on ranks of one thread:
//   bazel build //lessons/06_offload:benchmark
//   tools/mpirun -n 2 bazel-bin/lessons/06_offload/benchmark --tokens 256 --rounds 3
//
// Both trainers of a pair exist at once and take turns, so that what else the machine does strikes
// both. Printed: medians over the rounds of the slowest rank's milliseconds, and of the ratios
// within a round. --lesson 03_zero1 measures that one alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "common/comm/job.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/threads.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"

namespace ladder {
namespace {

struct Options {
  size_t tokens = 256, batch = 4, rounds = 3;
  std::string lesson;  // empty: all
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What trainers stand on, for one shape.
struct Ground {
  Ground(Job& job_, const Options& options)
      : job(job_), grid{.data_size = job.size(), .rank = job.rank()} {
    config.model = {12, 12, 768, 50257, options.tokens};
    config.global_batch_size = options.batch;
    config.micro_batch_size = options.batch / job.size();
  }
  TrainerContext context() {
    return {config, grid, corpus, device, host, stream, &job.communicator(), job.registered()};
  }
  // Milliseconds of the slowest rank; all begin together.
  template <class Body>
  double time_of(Body body) {
    Communicator& ranks = job.communicator();
    ranks.barrier();
    const auto begin = std::chrono::steady_clock::now();
    body();
    double ms = 1e3 * seconds_since(begin);
    const TensorView number(&ms, DType::fp64, DeviceType::cpu, {1});
    ranks.all_reduce(stream, number, {.reduction = Reduction::max}).wait(stream);
    return ms;
  }

  Job& job;
  RunConfig config;
  ProcessGrid grid;
  Corpus corpus = Corpus::king_james();
  Memory device{DeviceType::cpu, "device", 0}, host{DeviceType::cpu, "host", 0};
  Stream stream{DeviceType::cpu};
};

template <Trainer T>
void compare(Job& job, const Options& options, const std::string& name,
             const typename T::Flags& flags = {}) {
  if (!options.lesson.empty() && !name.starts_with(options.lesson)) return;
  Ground ground(job, options);
  DdpTrainer ddp(ground.context(), {});
  T trainer(ground.context(), flags);
  std::vector<double> ddp_ms, ms, ratios;
  for (size_t round = 0; round <= options.rounds; ++round) {
    const double before = ground.time_of([&] { ddp.step(); });
    const double own = ground.time_of([&] { trainer.step(); });
    if (round == 0) continue;  // touches the memory
    ddp_ms.push_back(before);
    ms.push_back(own);
    ratios.push_back(own / before);
  }
  if (job.rank() != 0) return;
  std::printf("%-34s %8.0f ms, lesson 02 %8.0f ms, ratio %.3f\n", name.c_str(), median(ms),
              median(ddp_ms), median(ratios));
  std::fflush(stdout);
}

void measure(Job& job, const Options& options) {
  set_num_threads(1);
  if (job.rank() == 0) {
    std::printf("124M, B=%zu, T=%zu, %zu ranks of one thread, medians of %zu rounds\n",
                options.batch, options.tokens, job.size(), options.rounds);
  }
  compare<Zero1Trainer>(job, options, "03_zero1");
  compare<Zero2Trainer>(job, options, "04_zero2");
  compare<Zero3Trainer>(job, options, "05_zero3");
  compare<OffloadTrainer>(job, options, "06_offload");
  compare<OffloadTrainer>(job, options, "06_offload stage 3 with parameters",
                          {.zero_stage = 3, .offload_parameters = true, .gather = {}});
}

int run(int argc, char** argv) {
  Job job;
  try {
    Options options;
    CLI::App app("Lessons 03 to 06 against lesson 02");
    app.add_option("--tokens", options.tokens, "Tokens of a sequence")->capture_default_str();
    app.add_option("--batch", options.batch, "Sequences of the global batch")
        ->capture_default_str();
    app.add_option("--rounds", options.rounds, "Measured rounds")->capture_default_str();
    app.add_option("--lesson", options.lesson, "Only what begins with this");
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      throw UserError(error.what());
    }
    if (job.size() < 2 || options.batch % job.size() != 0 || options.rounds == 0) {
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
