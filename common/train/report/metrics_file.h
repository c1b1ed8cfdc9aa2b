// The file of --metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/comm/ledger.h"
#include "common/io/line_file.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// What is wrong with curves that would go on after a checkpoint of another run.
inline constexpr const char* kOtherRun =
    "has the curves of another run than the one that wrote the checkpoint; name the folder that "
    "has this run's checkpoints by --checkpoint, or another place for the curves";

// MetricsFile writes one JSON object a step, each on a line. The file can be followed while the run
// goes on. The file of an earlier run stays until the first step is done (LineFile).
class MetricsFile {
 public:
  // A run that goes on after a checkpoint of step `resumed_step` keeps the lines up to that step of
  // the file that is there, and no later ones, so that no step is in the file twice. A line that is
  // cut off at the file's end, as a killed run may leave it, counts as later. 0 = a new run, which
  // keeps nothing. A pipe has nothing to keep. `run` is the mark of the run, which each line gets
  // (new_run_mark()); "" = none. Throws UserError if the path cannot be written, if a line to keep
  // is not one of --metrics, or if the file is there and no line has the mark.
  explicit MetricsFile(const std::string& path, int64_t resumed_step = 0,
                       const std::string& run = "");

  struct Step {
    int64_t step;
    StepResult result;
    double step_ms, tokens_per_second;
    std::optional<double> mfu;              // flops_utilization() in progress.h
    std::optional<double> validation_loss;  // set if an evaluation followed in which a token counts
    std::optional<double> accuracy = {};    // of a classification head in that evaluation
    double sequences_per_second = 0;
    double exposed_ms = 0;  // the part of step_ms for which this rank waited for communication
  };
  // Writes one step's line. `communicated` is what the run has communicated so far; the line says
  // what this step added. A number that is infinite or NaN becomes null, and so does a loss of
  // nothing (StepResult::has_loss). Throws Error if the disk is full.
  void write(const Step& step, const Memory& device_memory,
             const TrafficEntries& communicated = {});
  void finish();

 private:
  std::string run_;
  LineFile file_;
  TrafficEntries before_;
};

}  // namespace ladder
