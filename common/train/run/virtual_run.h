// A step of a lesson's trainer on the virtual device: all ranks in this process, on a simulated
// clock.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/cluster/cluster.h"
#include "common/comm/job.h"
#include "common/io/file.h"
#include "common/train/flags/options.h"
#include "common/train/program/program.h"

namespace ladder {

// A step as it would be on a cluster.
struct SimulatedStep {
  double seconds = 0;
  double tokens_per_second = 0;
  // The operations of matrix products, as a fraction of what all devices can do in this time: those
  // of the model's formula (flops_per_token()), and those that were called, with what is computed
  // again.
  double model_utilization = 0, hardware_utilization = 0;
  size_t fullest = 0;      // the rank that needs most device memory
  MemoryUse device, host;  // its peaks
};

// A VirtualRun lets every rank of a program take a step on a simulated cluster. Nothing is
// computed. Memory is what the trainers allocate; times are the cluster's (common/virtual).
class VirtualRun {
 public:
  // `breakdown`: whether the report says where the time goes, by unit and by operation. Throws
  // UserError if the cluster is too small. REQUIRES: the program's adjust() has seen `config`; the
  // program and the cluster outlive this object.
  VirtualRun(const Program& program, const RunConfig& config, const Cluster& cluster,
             size_t num_ranks, bool breakdown = false);
  ~VirtualRun();

  // Returns the lines before training, with the memory that is predicted.
  std::string header() const;
  // Takes the step. Throws an Error if memory runs out, with a table of what is needed, or if ranks
  // wait for each other for ever, and a UserError if the step takes no time or centuries. Call it
  // once. `watch` is called again and again in the meantime; what it throws ends the run.
  SimulatedStep run(std::function<void()> watch = {});
  // Returns the tables of the step; `other_networks` is a line after the step's time. REQUIRES:
  // run().
  std::string report(const std::string& other_networks = "") const;
  // Returns the step as SVG, and the trace that it is drawn from: of all ranks, or of the first in
  // each stage of the pipeline if there are many. REQUIRES: the configuration has --draw; run().
  std::string drawing() const;
  std::string drawn_trace() const;
  // Writes the timeline of all ranks. REQUIRES: the configuration has --trace; run().
  void write_trace(PartialFile& file) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Runs what the flags say, and prints the header and the report. Throws UserError if flags do not
// go together.
void run_virtual(const Program& program, Options& options, const Job& job);

}  // namespace ladder
