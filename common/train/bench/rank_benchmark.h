// Benchmarks of training steps of GPT-2 124M on several ranks of one thread each, started by
// tools/mpirun.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "common/comm/job.h"
#include "common/train/trainer/ranks.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// RankBenchmark has what the trainers of one benchmark need: the ranks, the memory, the data.
class RankBenchmark {
 public:
  struct Options {
    size_t tokens = 256;  // tokens in a sequence
    size_t batch = 4;     // sequences in the global batch
    size_t rounds = 3;    // how often each body is timed
  };
  RankBenchmark(Job& job, const Options& options);

  const Options& options() const { return options_; }
  const RunConfig& config() const { return config_; }
  Communicator& ranks() { return job_.communicator(); }
  // The context for a trainer on all ranks, each of which runs its part of the batch as one
  // micro-batch.
  TrainerContext context();
  // The context for a trainer that runs the whole batch on this rank alone.
  TrainerContext context_alone();
  // Runs `body` on all ranks at the same time, and returns the milliseconds that the slowest rank
  // takes. Collective.
  double ms_of(const std::function<void()>& body);

 private:
  Job& job_;
  Options options_;
  RunConfig config_, whole_batch_;
  ProcessGrid grid_;
  RankContext ranks_;
  Corpus corpus_ = Corpus::king_james();
  Memory device_{DeviceType::cpu, "device", 0}, host_{DeviceType::cpu, "host", 0};
  Stream stream_{DeviceType::cpu};
};

// The main function of a benchmark. It joins the other ranks, reads the options and those that
// `add_flags` adds, and calls `body`. Returns the exit status. A rank that fails ends all ranks.
int run_rank_benchmark(int argc, char** argv, const char* description,
                       const std::function<void(CLI::App&)>& add_flags,
                       const std::function<void(RankBenchmark&)>& body);

}  // namespace ladder
