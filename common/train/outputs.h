// What a run writes to disk: metrics and dumps.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/io/file.h"
#include "common/train/trainer.h"

namespace ladder {

// One JSON object a step. Lines are written as they come to FILE.partial, which gets its name at
// the end of the run.
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
             const Ledger::Entries& communicated = {});
  void finish() { file_.commit(); }

 private:
  PartialFile file_;
  Ledger::Entries before_;
};

// Checks that files can be made in `folder`, and makes it where it is missing. UserError if not.
void prepare_dump_folder(const std::string& folder);

// UserError unless a file can be made at `path`. An empty path is none.
void check_writable(const std::string& path);

// The kinds of tensors in a dump, in their order.
inline constexpr std::array<TensorKind, 4> kDumpedKinds = {
    TensorKind::grad, TensorKind::param, TensorKind::exp_avg, TensorKind::exp_avg_sq};

// Writes folder/step_000001.safetensors: `loss` and `grad_norm` (F64), then grad.NAME, param.NAME,
// exp_avg.NAME and exp_avg_sq.NAME in the layout's order and the run's dtype.
// Throws Error when the disk is full; a file that was there stays.
void write_dump(const std::string& folder, int64_t step, const StepResult& result,
                const Layout& layout, DType dtype,
                const std::function<void(TensorKind, const TensorSink&)>& visit);

}  // namespace ladder
