// What a run writes to disk: metrics and dumps.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/ledger.h"
#include "common/io/descriptor.h"
#include "common/io/line_file.h"
#include "common/train/named_files.h"
#include "common/train/trainer.h"

namespace ladder {

// One JSON object a step, each on a line. The file can be followed while the run goes on; the file
// of an earlier run stays until the first step is done (LineFile).
class MetricsFile {
 public:
  // UserError: the path cannot be written.
  explicit MetricsFile(const std::string& path) : file_(path) {}

  struct Step {
    int64_t step;
    StepResult result;
    double step_ms, tokens_per_second;
    std::optional<double> mfu;              // flops_utilization() in progress.h
    std::optional<double> validation_loss;  // where this step was followed by an evaluation
  };
  // `communicated`: all so far; the line says what this step added.
  // Throws Error when the disk is full.
  void write(const Step& step, const Memory& device_memory,
             const TrafficEntries& communicated = {});
  void finish() { file_.finish(); }

 private:
  LineFile file_;
  TrafficEntries before_;
};

// The folder of --dump, which one run at a time writes to: it is locked (flock) while this object
// lives, where its file system has locks.
class DumpFolder {
 public:
  // Makes the folder where it is missing. UserError, naming --dump: it cannot be made, or no file
  // can be made in it; another run is writing there; it has the dump of a step beyond `num_steps`,
  // which would stay among this run's. Dumps of earlier steps will be replaced one by one.
  DumpFolder(const std::string& path, int64_t num_steps);
  // Removes the folders that it has made, if nothing is in them.
  ~DumpFolder();
  DumpFolder(const DumpFolder&) = delete;
  DumpFolder& operator=(const DumpFolder&) = delete;

 private:
  // Makes the folder and those above it, as far as they are missing.
  explicit DumpFolder(const std::string& path);

  std::vector<std::string> made_;  // by the constructor, from the deepest up
  Descriptor folder_;
};

// What rank 0 writes, each where its flag is given.
struct OutputFiles {
  // UserError, naming the flag, where a file cannot be written; of `more_outputs` that is all that
  // is found out.
  OutputFiles(const RunConfig& config, const std::vector<NamedFile>& more_outputs);

  std::optional<DumpFolder> dump;
  std::optional<MetricsFile> metrics;
  std::optional<PartialFile> trace;
};

// Writes folder/step_000001.safetensors: `loss` and `grad_norm` (F64), then grad.NAME, param.NAME,
// exp_avg.NAME and exp_avg_sq.NAME, in the order of the model's description and in `dtype`. `visit`
// hands the tensors of a kind to a sink, in that order.
// Throws Error when the disk is full; a file that was there stays.
void write_dump(const std::string& folder, int64_t step, const StepResult& result,
                const ModelDescription& model, DType dtype,
                const std::function<void(std::string_view kind, const TensorSink&)>& visit);

}  // namespace ladder
