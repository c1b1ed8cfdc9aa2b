// Where the time of a simulated step goes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/virtual/devices.h"

namespace ladder {

// A Breakdown sums up what the streams of all ranks do in a step.
class Breakdown {
 public:
  explicit Breakdown(size_t num_ranks) : begin_(num_ranks, -1) {}

  // From now on the rank's operations count, if they begin at `seconds` or later.
  void begin(size_t rank, double seconds) { begin_[rank] = seconds; }
  void add(const Span& span);

  // Returns the table of kinds: the mean over ranks of the time that their devices spend on each,
  // and the rest of a step of `step_seconds`, in which they compute nothing.
  std::string kinds_text(double step_seconds) const;
  // Returns the table of operations by name, the longest first.
  std::string names_text(double step_seconds) const;

 private:
  struct Sum {
    const char* name;
    Port port;
    double seconds = 0, waited = 0;  // waited: for other ranks to come
    size_t calls = 0;
  };
  double mean(double seconds) const { return seconds / static_cast<double>(begin_.size()); }

  std::vector<double> begin_;  // of each rank's step; < 0: not yet
  std::vector<Sum> sums_;
};

}  // namespace ladder
