#include "common/schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// A forward, a backward or half of one. Times count from the beginning of the timeline.
struct Box {
  size_t stage = 0, chunk = 0, micro_batch = 0;
  ActionKind kind = ActionKind::forward;
  std::string number;  // its micro-batch's number, and a letter for the chunk if there are several
  double begin = 0, end = 0;
};

bool has_any(const Schedule& schedule, const std::function<bool(const Action&)>& is_it) {
  return std::ranges::any_of(
      schedule, [&](const StageSchedule& stage) { return std::ranges::any_of(stage, is_it); });
}
size_t num_chunks(const Schedule& schedule) {
  size_t count = 1;
  for (const StageSchedule& stage : schedule) {
    for (const Action& action : stage) count = std::max(count, action.chunk + 1);
  }
  return count;
}
bool has_halves(const Schedule& schedule) {
  return has_any(schedule,
                 [](const Action& action) { return action.kind == ActionKind::backward_weight; });
}

std::vector<Box> boxes_of(const Schedule& schedule, const Timeline& timeline, bool names_chunk) {
  const double origin = extent_of(timeline).begin;
  std::vector<Box> boxes;
  for (size_t s = 0; s < schedule.size(); ++s) {
    for (size_t i = 0; i < schedule[s].size(); ++i) {
      const Action& action = schedule[s][i];
      if (!is_work(action.kind)) continue;
      std::string number = std::to_string(action.micro_batch);
      if (names_chunk) number += static_cast<char>('a' + action.chunk % 26);
      const auto [begin, end] = timeline[s][i];
      boxes.push_back(
          {s, action.chunk, action.micro_batch, action.kind, number, begin - origin, end - origin});
    }
  }
  return boxes;
}

size_t num_micro_batches(const Schedule& schedule) {
  size_t count = 0;
  for (const Action& action : schedule.front()) count = std::max(count, action.micro_batch + 1);
  return count;
}

std::string percent(double share, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << 100 * share << " %";
  return text.str();
}

// Returns the columns that a box should have: for the longest number, and for a blank or brackets.
size_t wanted_columns(const Box& box, size_t digits) {
  return digits + (box.kind == ActionKind::forward ? 1 : 2);
}

// Returns the columns of one unit of time: enough for the shortest box, but not much more than
// boxes need on average.
double columns_per_time(const std::vector<Box>& boxes, size_t digits) {
  double most = 0, columns = 0, time = 0;
  for (const Box& box : boxes) {
    const auto wanted = static_cast<double>(wanted_columns(box, digits));
    const double length = box.end - box.begin;
    if (length > 0) most = std::max(most, wanted / length);
    columns += wanted;
    time += length;
  }
  constexpr double kMostAboveAverage = 4;
  return time > 0 ? std::min(most, kMostAboveAverage * columns / time) : 1;
}

std::string text_of(const Box& box, size_t columns, size_t digits) {
  const std::string& number = box.number;
  const bool is_forward = box.kind == ActionKind::forward;
  const bool is_weight = box.kind == ActionKind::backward_weight;
  if (columns < wanted_columns(box, digits)) {
    return std::string(columns, is_forward ? 'f' : is_weight ? 'w' : 'b');
  }
  if (is_forward) return number + std::string(columns - number.size(), ' ');
  const std::string blanks(columns - number.size() - 2, ' ');
  return concat(is_weight ? "(" : "[", number, blanks, is_weight ? ")" : "]");
}

// Nothing of the optimizer is in these pictures.
constexpr Colour kWeightColour = Colour::optimizer;

Colour colour_of(ActionKind kind) {
  if (kind == ActionKind::forward) return Colour::forward;
  return kind == ActionKind::backward_weight ? kWeightColour : Colour::backward;
}

// When boxes of a kind and micro-batch end, on any stage.
using Ends = std::map<std::pair<ActionKind, size_t>, std::vector<double>>;
Ends ends_of(const std::vector<Box>& boxes) {
  Ends ends;
  for (const Box& box : boxes) ends[{box.kind, box.micro_batch}].push_back(box.end);
  return ends;
}

// The times at which the idle time from `begin` to `end` is cut, with both of them. What the stage
// has done before and does afterwards may be null.
std::vector<double> cuts_of(double begin, double end, const Box* before, const Box* after,
                            const Ends& ends) {
  const double least = 1e-6 * (end - begin);
  std::vector<double> cuts = {begin, end};
  for (const Box* box : {before, after}) {
    if (box == nullptr) continue;
    for (double time : ends.at({box->kind, box->micro_batch})) {
      if (time > begin + least && time < end - least) cuts.push_back(time);
    }
  }
  std::ranges::sort(cuts);
  const auto same = std::ranges::unique(cuts, [&](double a, double b) { return b - a <= least; });
  cuts.erase(same.begin(), same.end());
  return cuts;
}

constexpr double kLeft = 60, kTop = 44, kLeastWidth = 588, kRight = 72;
constexpr double kBox = 28, kHeld = 32, kRow = kBox + kHeld + 16;
constexpr int kDigits = 12;  // their size

// The boxes of one stage, idle time, and what it holds.
class Row {
 public:
  Row(Svg& svg, double top, double scale) : svg_(svg), top_(top), scale_(scale) {}

  void box(const Box& box) {
    const double x = x_of(box.begin), width = x_of(box.end) - x;
    const bool is_pale = box.chunk > 0;
    svg_.box(colour_of(box.kind), x, top_, width, kBox, {}, is_pale);
    svg_.label(is_pale ? std::nullopt : std::optional(colour_of(box.kind)), x, top_, width, kBox,
               box.number, {.size = kDigits});
  }
  void idle(double begin, double end) {
    if (end > begin) svg_.box(Colour::idle, x_of(begin), top_, x_of(end) - x_of(begin), kBox);
  }
  // `most`: of all stages. Up to eight micro-batches have one scale in all pictures.
  void held(const HeldOverTime& held, double chunks, double most) {
    if (held.empty()) return;
    const double bottom = top_ + kBox + 4 + kHeld, unit = kHeld / std::max(8.0, most);
    Svg::Points points = {{x_of(held.front().first), bottom}};
    for (const auto& [time, count] : held) {
      points.emplace_back(x_of(time), points.back().second);
      points.emplace_back(x_of(time), bottom - unit * static_cast<double>(count) / chunks);
    }
    svg_.area(Colour::activations, points);
  }

 private:
  double x_of(double time) const { return kLeft + time * scale_; }

  Svg& svg_;
  double top_, scale_;
};

void draw_stage(Row& row, const std::vector<Box>& boxes, size_t stage, double length,
                const Ends& ends) {
  std::vector<Box> own;
  std::ranges::copy_if(boxes, std::back_inserter(own),
                       [&](const Box& box) { return box.stage == stage; });
  std::ranges::stable_sort(own, {}, &Box::begin);
  double time = 0;
  for (size_t i = 0; i <= own.size(); ++i) {
    const double next = i < own.size() ? own[i].begin : length;
    if (next > time) {
      const auto cuts = cuts_of(time, next, i > 0 ? &own[i - 1] : nullptr,
                                i < own.size() ? &own[i] : nullptr, ends);
      for (size_t k = 1; k < cuts.size(); ++k) row.idle(cuts[k - 1], cuts[k]);
    }
    if (i == own.size()) break;
    row.box(own[i]);
    time = own[i].end;
  }
}

// So wide that all boxes have their number, if that is not much wider than a page.
double width_for(const std::vector<Box>& boxes, double length) {
  constexpr double kMostWidth = 1500, kBorder = 1.2;
  double width = kLeastWidth;
  for (const Box& box : boxes) {
    if (box.end <= box.begin) continue;
    width = std::max(width,
                     (text_width(box.number, kDigits) + kBorder) * length / (box.end - box.begin));
  }
  return std::min(width, kMostWidth);
}

}  // namespace

std::string draw_text(const Schedule& schedule, const Timeline& timeline) {
  const bool names_chunk = num_chunks(schedule) > 1;
  const std::vector<Box> boxes = boxes_of(schedule, timeline, names_chunk);
  const Bubble bubble = bubble_of(schedule, timeline);
  const size_t digits = std::to_string(num_micro_batches(schedule) - 1).size() + names_chunk;
  const double scale = columns_per_time(boxes, digits);
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time * scale)); };
  std::vector<std::string> rows(schedule.size(),
                                std::string(column(extent_of(timeline).length()), '.'));
  for (const Box& box : boxes) {
    const size_t columns = column(box.end) - column(box.begin);
    rows[box.stage].replace(column(box.begin), columns, text_of(box, columns, digits));
  }
  std::ostringstream text;
  const auto label_width = static_cast<int>(std::to_string(rows.size() - 1).size());
  for (size_t s = 0; s < rows.size(); ++s) {
    text << "stage " << std::setw(label_width) << s << " |" << rows[s] << "| idle "
         << percent(bubble.idle[s], 0) << "\n";
  }
  text << "n forward, [n] backward" << (has_halves(schedule) ? " of the input, (n) of weights" : "")
       << ", . idle; bubble " << percent(bubble.overall, 1) << "\n";
  return text.str();
}

std::string draw_svg(const std::string& name, const Schedule& schedule, const Timeline& timeline,
                     double duration) {
  const size_t chunks = num_chunks(schedule);
  const std::vector<Box> boxes = boxes_of(schedule, timeline, chunks > 2);
  const Span extent = extent_of(timeline);
  const double end = extent.length(), length = duration > 0 ? duration : end;
  const double width = width_for(boxes, length), scale = length > 0 ? width / length : 0;
  const Bubble bubble = bubble_of(schedule, timeline);
  const Ends ends = ends_of(boxes);
  const auto whole = [&](size_t count) {
    return static_cast<double>(count) / static_cast<double>(chunks);
  };
  std::vector<HeldOverTime> held;             // of each stage
  std::vector<double> most(schedule.size());  // that each stage holds
  for (size_t s = 0; s < schedule.size(); ++s) {
    held.push_back(held_over_time(schedule[s], timeline[s]));
    for (auto& [time, count] : held[s]) {
      time -= extent.begin;
      most[s] = std::max(most[s], whole(count));
    }
  }
  const double bottom = kTop + kRow * static_cast<double>(schedule.size());
  Svg svg(kLeft + width + kRight, bottom + 26);
  svg.title(concat(name, "; stages: ", schedule.size(), "; micro-batches: ",
                   num_micro_batches(schedule), "; bubble: ", percent(bubble.overall, 1)));
  for (size_t s = 0; s < schedule.size(); ++s) {
    const double top = kTop + kRow * static_cast<double>(s), right = kLeft + width + 4;
    Row row(svg, top, scale);
    svg.text(6, top + 19, concat("stage ", s));
    svg.text(right, top + 19, "idle " + percent(bubble.idle[s], 0));
    svg.text(right, top + kBox + kHeld, concat("holds ", most[s]));
    draw_stage(row, boxes, s, end, ends);
    row.held(held[s], static_cast<double>(chunks), *std::ranges::max_element(most));
  }
  double x = svg.legend(10, bottom + 2, Colour::forward, "forward");
  const bool splits = has_halves(schedule);
  x = svg.legend(x, bottom + 2, Colour::backward, splits ? "backward, input" : "backward");
  if (splits) x = svg.legend(x, bottom + 2, kWeightColour, "backward, weights");
  x = svg.legend(x, bottom + 2, Colour::idle, "idle");
  svg.legend(x, bottom + 2, Colour::activations, "micro-batches held");
  return svg.str();
}

}  // namespace ladder
