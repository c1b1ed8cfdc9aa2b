// Benchmarks of training steps of GPT-2 124M on several ranks of one thread each, started by
// tools/mpirun.
#pragma once

#include <functional>

#include "common/comm/job.h"
#include "common/train/ranks.h"
#include "common/train/trainer.h"

namespace ladder {

// What the trainers of one benchmark stand on.
class RankBenchmark {
 public:
  struct Options {
    size_t tokens = 256;  // of a sequence
    size_t batch = 4;     // sequences of the global batch
    size_t rounds = 3;
  };
  RankBenchmark(Job& job, const Options& options);

  const Options& options() const { return options_; }
  const RunConfig& config() const { return config_; }
  Communicator& ranks() { return job_.communicator(); }
  // For a trainer on all ranks, in one micro-batch each, and for one that has the whole batch
  // alone.
  TrainerContext context();
  TrainerContext context_alone();
  // Milliseconds that the slowest rank takes; all begin together. Collective.
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

// main of a benchmark: joins the other ranks, reads the options and what `add_flags` adds to them,
// and calls `body`. Returns the exit status; a rank that fails ends all ranks.
int run_rank_benchmark(int argc, char** argv, const char* description,
                       const std::function<void(CLI::App&)>& add_flags,
                       const std::function<void(RankBenchmark&)>& body);

}  // namespace ladder
