#include "common/train/bench/rank_benchmark.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/train/flags/command_line.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/threads.h"

namespace ladder {

RankBenchmark::RankBenchmark(Job& job, const Options& options)
    : job_(job),
      options_(options),
      grid_{.data_size = job.size(), .rank = job.rank()},
      ranks_{grid_, job.communicator(), nullptr, job.registered()} {
  config_.model = {12, 12, 768, 50257, options.tokens};
  config_.global_batch_size = options.batch;
  whole_batch_ = config_;
  config_.micro_batch_size = options.batch / job.size();
  whole_batch_.micro_batch_size = options.batch;
}

TrainerContext RankBenchmark::context() {
  return {config_, corpus_, device_, host_, stream_, &ranks_};
}

TrainerContext RankBenchmark::context_alone() {
  return {whole_batch_, corpus_, device_, host_, stream_};
}

double RankBenchmark::ms_of(const std::function<void()>& body) {
  ranks().barrier();
  const auto begin = Clock::now();
  body();
  double ms = 1e3 * seconds_since(begin);
  const TensorView number(&ms, DType::fp64, DeviceType::cpu, {1});
  ranks().all_reduce(stream_, number, {.reduction = Reduction::max}).wait(stream_);
  return ms;
}

int run_rank_benchmark(int argc, char** argv, const char* description,
                       const std::function<void(CLI::App&)>& add_flags,
                       const std::function<void(RankBenchmark&)>& body) {
  Job job;
  try {
    job.join();
    RankBenchmark::Options options;
    CLI::App app(description);
    app.add_option("--tokens", options.tokens, "Tokens of a sequence")->capture_default_str();
    app.add_option("--batch", options.batch, "Sequences of the global batch")
        ->capture_default_str();
    app.add_option("--rounds", options.rounds, "Measured rounds")->capture_default_str();
    add_flags(app);
    try {
      parse_command_line(app, argc, argv);
    } catch (const CLI::Success& asked) {
      if (job.rank() == 0) std::cout << asked.what();
      return 0;
    }
    if (job.size() < 2 || options.batch % job.size() != 0 || options.rounds == 0) {
      throw UserError("start it by tools/mpirun -n 2, or with another divisor of --batch");
    }
    job.connect({});
    set_num_threads(1);
    RankBenchmark benchmark(job, options);
    body(benchmark);
    return 0;
  } catch (const std::exception& error) {
    job.fail(concat("error: ", error.what()), 1);
    return 1;
  }
}

}  // namespace ladder
