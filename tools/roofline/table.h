// The table of a step's kernels, and what it comes to.
#pragma once

#include <span>
#include <string>

#include "common/train/config.h"
#include "tools/roofline/gpu.h"

namespace ladder::roofline {

// A row of the table: all launches of one kernel, or all products.
struct Row {
  std::string name;
  std::size_t launches = 0;
  double seconds = 0;
  std::string_view bound;  // of the launch that takes longest
  double longest = 0;      // seconds
  double occupancy = 0;    // of that launch, at most
  emulator::Counts counts;
};

// Returns the rows, those that take longest first.
std::vector<Row> rows_of(std::span<const emulator::Profile> profiles, const Gpu& gpu, DType dtype);

// Returns the table with its assumptions, the time of a step and model FLOPs utilization.
std::string table_of(std::span<const Row> rows, const Gpu& gpu, const RunConfig& config);

}  // namespace ladder::roofline
