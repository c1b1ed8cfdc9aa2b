// Where the time of a simulated step goes.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/train/report/unit_times.h"
#include "common/virtual/devices.h"

namespace ladder {

// A Breakdown sums up what the streams of all ranks do in a step.
class Breakdown {
 public:
  explicit Breakdown(size_t num_ranks) : num_ranks_(num_ranks) {}

  void add(const DeviceSpan& span);
  void add(const UnitTime& work);

  // Returns the table of kinds: the mean over ranks of the time that their devices spend on each,
  // and the rest of a step of `step_seconds`, in which they compute nothing.
  std::string kinds_text(double step_seconds) const;
  // Returns the table of operations by name, the longest first.
  std::string names_text(double step_seconds) const;
  // Returns the table of units and passes, "h.* backward" for those of all blocks, in the order in
  // which they first came.
  std::string units_text(double step_seconds) const;

 private:
  struct Sum {
    const char* name;
    Port port;
    double seconds = 0, waited = 0;  // waited: for other ranks to come
    size_t calls = 0;
  };
  double mean(double seconds) const { return seconds / static_cast<double>(num_ranks_); }

  size_t num_ranks_;
  std::vector<Sum> sums_;
  std::vector<std::pair<std::string, double>> units_;  // seconds of each
};

}  // namespace ladder
