// The files that a run writes: metrics, event files, dumps, the trace and the exported model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/io/locked_folder.h"
#include "common/train/report/board.h"
#include "common/train/report/metrics_file.h"
#include "common/train/run/export.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// DumpFolder is the folder of --dump. Only one run at a time may write to it.
class DumpFolder {
 public:
  // Makes the folder if it is missing. Dumps that are there will be replaced one by one. Throws a
  // UserError that names --dump if LockedFolder does, or if the folder has the dump of a step
  // beyond `num_steps`, which would stay among this run's dumps.
  DumpFolder(const std::string& path, int64_t num_steps);

 private:
  LockedFolder folder_;
};

// Returns a mark for a new run. Its checkpoints and its curves have it, so that those of two runs
// are not taken for one.
std::string new_run_mark();

// Returns the whole paths of the files of curves: those of --metrics and --tensorboard.
std::set<std::string> curves_of(const RunConfig& config);

// The files that rank 0 writes. Each exists if its flag is given.
struct OutputFiles {
  // Opens the files. Throws a UserError that names the flag if one cannot be written. That of
  // --draw is checked but not opened; the lesson writes it. A run that goes on after a checkpoint
  // of step `resumed_step` adds to the metrics and event files that are there; 0 = a new run. With
  // --resume a run that has found no checkpoint replaces those in `begun` (Checkpoints::begun()),
  // and refuses others, whose checkpoints may have another name. `run` is the run's mark.
  explicit OutputFiles(const RunConfig& config, int64_t resumed_step = 0,
                       const std::set<std::string>& begun = {}, const std::string& run = "");

  std::optional<DumpFolder> dump;
  std::optional<Board> board;
  std::optional<MetricsFile> metrics;
  std::optional<PartialFile> trace;
  std::optional<ExportFolder> exported;
};

// Writes a dump, such as folder/step_000001.safetensors: `loss` and `grad_norm` (F64), then the
// tensors grad.NAME, param.NAME, exp_avg.NAME and exp_avg_sq.NAME in `dtype`, each kind in the
// order of the model's description, of those that the run keeps(). `visit` gives the tensors of a
// kind to a sink in that order. A rank that writes nothing takes part in that: its `folder` is
// empty, and its sinks are null. Throws Error if the disk is full; a file that was there before
// then stays as it was.
void write_dump(const std::string& folder, int64_t step, const StepResult& result,
                const ModelDescription& model, DType dtype,
                const std::function<void(std::string_view kind, const TensorSink&)>& visit,
                const OptimizerConfig& optimizer = {});

}  // namespace ladder
