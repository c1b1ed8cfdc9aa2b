#include "tools/course/pictures/time_lanes.h"

#include <algorithm>

#include "common/io/text.h"
#include "common/optimizer/rule.h"
#include "common/train/report/timeline.h"
#include "common/train/run/simulated_rank.h"
#include "common/train/run/virtual_run.h"
#include "common/virtual/cluster_times.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kLeft = 110, kWidth = 596;
constexpr double kNear = 24;  // pixels between boxes that share a line of names
const char* const kFlags =
    "--layers 4 --hidden 1024 --heads 16 --sequence-length 512 --global-batch-size 16 "
    "--micro-batch-size 4";

// "h.3" of its forward and backward, "classifier", "update".
std::string name_of(const StepSpan& span) {
  return span.what == "classifier" || span.unit.empty() ? kind_of(span).name : span.unit;
}

}  // namespace

FirstRank simulate_first_rank(const Program& program) {
  FirstRank step;
  step.config = resolve_flags(program, words_of(kFlags), kPicturedRanks);
  step.config.draw = "a picture";  // so that what is to be drawn is kept
  const Cluster cluster = read_cluster(concat("rtx3090x", kPicturedRanks));
  step.config.device = device_of(cluster);
  VirtualRun run(program, step.config, cluster, kPicturedRanks);
  run.run();
  const TracedStep traced = step_of(run.drawn_trace(), 1);
  const std::vector<StepSpan>& spans = traced.ranks.at(0).spans;
  const double begin = spans.front().from;
  for (StepSpan span : spans) {
    span.from -= begin;
    span.to -= begin;
    step.end = std::max(step.end, span.to);
    std::vector<StepSpan>& row = span.computes ? step.computes : step.communicates;
    if (span.what == kUpdateRange) span.unit.clear();
    const bool goes_on =
        !row.empty() && span.what == kUpdateRange && row.back().what == kUpdateRange;
    if (goes_on) {
      row.back().to = span.to;
    } else {
      row.push_back(span);
    }
  }
  return step;
}

std::vector<TimeBox> boxes_of(const std::vector<StepSpan>& computes) {
  std::vector<TimeBox> boxes;
  for (const StepSpan& span : computes) {
    boxes.push_back({span.from, span.to, kind_of(span).colour, name_of(span)});
  }
  return boxes;
}

double TimeLanes::x_of(double time) const { return kLeft + kWidth * time / end_; }

void TimeLanes::lane(double y, const std::string& name, double until,
                     const std::vector<TimeBox>& boxes) {
  svg_.text(10, y + 17, name);
  svg_.rect(Colour::idle, kLeft, y, x_of(until) - kLeft, kBox);
  std::vector<TimeBox> unnamed;
  for (const TimeBox& box : boxes) {
    const double x = x_of(box.from), width = x_of(box.to) - x;
    if (box.opacity == 1) {
      svg_.box(box.colour, x, y, width, kBox, box.name);
    } else {
      svg_.shade(box.colour, box.opacity, x, y, width, kBox);
    }
    const auto on = box.opacity == 1 ? std::optional(box.colour) : std::nullopt;
    if (!box.name.empty() && !svg_.label(on, x, y, width, kBox, box.name)) unnamed.push_back(box);
  }
  names_above(y, until, unnamed);
}

// Boxes near each other share a line of names. A line gives way to the next one.
void TimeLanes::names_above(double y, double until, const std::vector<TimeBox>& boxes) {
  constexpr int kSize = 12;
  constexpr double kBetween = 6;
  struct Line {
    double from, to;  // of its boxes
    std::vector<std::string> names;
  };
  std::vector<Line> lines;
  for (const TimeBox& box : boxes) {
    if (lines.empty() || x_of(box.from) - lines.back().to > kNear) {
      lines.push_back({x_of(box.from), 0, {}});
    }
    lines.back().to = x_of(box.to);
    std::vector<std::string>& names = lines.back().names;
    if (!std::ranges::count(names, box.name)) names.push_back(box.name);
  }
  double next = x_of(until) + kBetween;  // where the line on the right begins
  std::ranges::reverse(lines);
  for (const Line& line : lines) {
    std::string text;
    for (const std::string& name : line.names) text += (text.empty() ? "" : ", ") + name;
    const double width = text_width(text, kSize);
    next = std::max(kLeft, std::min((line.from + line.to - width) / 2, next - kBetween - width));
    svg_.text(next, y - 5, text, {.size = kSize});
  }
}

void TimeLanes::legend(double y, const std::string& idle) {
  double x = 10;
  for (const auto& [colour, name] : {std::pair<Colour, std::string>{Colour::forward, "forward"},
                                     {Colour::classifier, "classifier"},
                                     {Colour::backward, "backward"},
                                     {Colour::optimizer, "update"},
                                     {Colour::communication, "sums of gradients"},
                                     {Colour::idle, idle}}) {
    x = svg_.legend(x, y, colour, name);
  }
}

void TimeLanes::axis(double y) { draw_time_axis(svg_, kLeft, kWidth, end_, y); }

}  // namespace ladder
