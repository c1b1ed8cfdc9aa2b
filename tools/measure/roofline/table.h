// The table of a step's kernels, and what it comes to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/train/trainer/config.h"
#include "tools/measure/roofline/gpu.h"

namespace ladder::roofline {

// A row of the table: all launches of one kernel, or all products.
struct Row {
  std::string name;
  std::size_t launches = 0;
  double seconds = 0;
  std::string_view bound;                   // of the launch that takes longest
  double longest = 0;                       // seconds
  double occupancy = 0;                     // of that launch, at most
  double measured = 0;                      // seconds of all launches; 0: not measured
  double memory = 0, units = 0, issue = 0;  // seconds of all launches: see Time
  double instructions = 0;                  // of warps; 0: not known
  emulator::Counts counts;

  void add(const emulator::Profile& launch, const Cluster& gpu, DType dtype);
};

// Returns the rows, those that take longest first.
std::vector<Row> rows_of(std::span<const emulator::Profile> profiles, const Cluster& gpu,
                         DType dtype);

// Takes from the table that LADDER_TIME_KERNELS=1 prints (kernels/runtime/kernel_times.h) how long
// the launches of each row took: the mean of a launch there times the launches here. Other lines of
// `text` are passed over. Returns the kernels that no row is for. Throws a UserError if there is no
// table in `text`.
std::vector<std::string> add_measured(std::vector<Row>& rows, const std::string& text);

// Returns the table with its assumptions, the time of a step and model FLOPs utilization.
std::string table_of(std::span<const Row> rows, const Cluster& gpu, const RunConfig& config);

}  // namespace ladder::roofline
