// A whole run of a lesson's trainer: header, training loop, metrics, dumps, end table, sample.
#pragma once

#include <memory>

#include "common/comm/job.h"
#include "common/train/program/prediction.h"
#include "common/train/program/program.h"

namespace ladder {

class TrainingRun {
 public:
  // Makes what a trainer works with: corpus, memory, stream, ranks. It checks every file that the
  // run needs, and prints the header. (Only rank 0 prints and writes files.) Throws UserError if
  // data, weights or output paths cannot be used. REQUIRES: the job is connected; the job and the
  // program outlive this object.
  TrainingRun(const Program& program, RunConfig config, const ProcessGrid& grid, Job& job,
              const Prediction& prediction);
  ~TrainingRun();

  // Makes the trainer, trains, exports the model, and prints the tables at the end and the sample.
  // Returns 0; or 128 + the number of a signal that has ended the run after a step, which is saved
  // with --checkpoint: then files are finished, and the rest is left out. Throws an Error if memory
  // runs out, with a table of what is needed, or if training has diverged.
  int train();

 private:
  TrainerContext context();
  void make_and_train(std::unique_ptr<Trainer>& trainer);
  void train_and_report(Trainer& trainer);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ladder
