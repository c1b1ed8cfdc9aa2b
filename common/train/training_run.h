// A whole run of a lesson's trainer: header, training loop, metrics, dumps, end table, sample.
#pragma once

#include <memory>

#include "common/comm/job.h"
#include "common/train/prediction.h"
#include "common/train/program.h"

namespace ladder {

class TrainingRun {
 public:
  // The surroundings of a trainer: corpus, memory, stream, ranks. Checks every file that the run
  // needs. Rank 0 alone prints and writes: here the header. UserError: data, weights or output
  // paths that cannot be used. REQUIRES: the job is connected; it and the program outlive this.
  TrainingRun(const Program& program, RunConfig config, const ProcessGrid& grid, Job& job,
              const Prediction& prediction);
  ~TrainingRun();

  // Makes the trainer and trains, to the end table and the sample. Error: out of memory, with a
  // table of what was needed; or training has diverged.
  void train();

 private:
  TrainerContext context();
  void train_and_report(const TrainerCalls& calls);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ladder
