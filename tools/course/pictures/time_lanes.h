// Pictures of one rank in time, from a step on the virtual device.
#pragma once

#include <string>
#include <vector>

#include "common/io/svg.h"
#include "common/train/program/program.h"
#include "common/train/report/step_spans.h"

namespace ladder {

// The first rank of a small model's step on four RTX 3090 in a machine: what it computes, with its
// update in one span, and what it communicates. Times are microseconds from the step's beginning.
inline constexpr size_t kPicturedRanks = 4;
struct FirstRank {
  RunConfig config;
  std::vector<StepSpan> computes, communicates;
  double end = 0;  // of all of it
};
FirstRank simulate_first_rank(const Program& program);

// A box in time.
struct TimeBox {
  double from = 0, to = 0;
  Colour colour = Colour::idle;
  std::string name = {};  // written in it, or above it where it does not fit
  double opacity = 1;
};
// Those of what a step computes.
std::vector<TimeBox> boxes_of(const std::vector<StepSpan>& computes);

// Rows of boxes below each other, all on one axis.
class TimeLanes {
 public:
  static constexpr double kBox = 24;
  // The axis goes from 0 to `end` microseconds.
  TimeLanes(Svg& svg, double end) : svg_(svg), end_(end) {}

  double x_of(double time) const;
  // A row whose upper edge is at y, with its name on the left. It is idle from 0 to `until` where
  // it has no box. Boxes are in the order of time.
  void lane(double y, const std::string& name, double until, const std::vector<TimeBox>& boxes);
  void axis(double y);
  // Names the colours of a step, in a line from y on; `idle` is what idle time is called.
  void legend(double y, const std::string& idle);

 private:
  void names_above(double y, double until, const std::vector<TimeBox>& boxes);

  Svg& svg_;
  double end_;
};

}  // namespace ladder
