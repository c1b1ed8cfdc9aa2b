#include "common/schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <sstream>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// A forward, a backward or half of one. Times count from the beginning of the timeline.
struct Box {
  size_t stage = 0, chunk = 0;
  ActionKind kind = ActionKind::forward;
  std::string number;  // its micro-batch's number, and a letter for the chunk if there are several
  double begin = 0, end = 0;
};

bool has_any(const Schedule& schedule, const std::function<bool(const Action&)>& is_it) {
  return std::ranges::any_of(
      schedule, [&](const StageSchedule& stage) { return std::ranges::any_of(stage, is_it); });
}
bool has_chunks(const Schedule& schedule) {
  return has_any(schedule, [](const Action& action) { return action.chunk > 0; });
}
bool has_halves(const Schedule& schedule) {
  return has_any(schedule,
                 [](const Action& action) { return action.kind == ActionKind::backward_weight; });
}

std::vector<Box> boxes_of(const Schedule& schedule, const Timeline& timeline) {
  const double origin = extent_of(timeline).begin;
  const bool names_chunk = has_chunks(schedule);
  std::vector<Box> boxes;
  for (size_t s = 0; s < schedule.size(); ++s) {
    for (size_t i = 0; i < schedule[s].size(); ++i) {
      const Action& action = schedule[s][i];
      if (!is_work(action.kind)) continue;
      std::string number = std::to_string(action.micro_batch);
      if (names_chunk) number += static_cast<char>('a' + action.chunk % 26);
      const auto [begin, end] = timeline[s][i];
      boxes.push_back({s, action.chunk, action.kind, number, begin - origin, end - origin});
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

}  // namespace

std::string draw_text(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<Box> boxes = boxes_of(schedule, timeline);
  const Bubble bubble = bubble_of(schedule, timeline);
  const size_t digits =
      std::to_string(num_micro_batches(schedule) - 1).size() + (has_chunks(schedule) ? 1 : 0);
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
  constexpr double kLeft = 70, kTop = 44, kWidth = 960, kRow = 34, kBox = 28, kDigit = 8;
  const double length = duration > 0 ? duration : extent_of(timeline).length();
  const double scale = length > 0 ? kWidth / length : 0;
  const Bubble bubble = bubble_of(schedule, timeline);
  const double bottom = kTop + kRow * static_cast<double>(schedule.size());
  const auto top_of = [&](size_t stage) { return kTop + kRow * static_cast<double>(stage); };
  Svg svg(kLeft + kWidth + 90, bottom + 32);
  svg.text(10, 26,
           concat(name, "; stages: ", schedule.size(), "; micro-batches: ",
                  num_micro_batches(schedule), "; bubble: ", percent(bubble.overall, 1)),
           {.size = 16, .bold = true});
  for (size_t s = 0; s < schedule.size(); ++s) {
    svg.text(10, top_of(s) + 19, concat("stage ", s));
    svg.rect(Colour::idle, kLeft, top_of(s), extent_of(timeline).length() * scale, kBox);
    svg.text(kLeft + kWidth + 8, top_of(s) + 19, "idle " + percent(bubble.idle[s], 0));
  }
  for (const Box& box : boxes_of(schedule, timeline)) {
    const double x = kLeft + box.begin * scale, width = (box.end - box.begin) * scale;
    svg.box(colour_of(box.kind), x, top_of(box.stage), width, kBox, {}, box.chunk > 0);
    if (width < kDigit * static_cast<double>(box.number.size()) + 2) continue;
    svg.text(x + width / 2, top_of(box.stage) + 19, box.number, {.anchor = Svg::Anchor::middle});
  }
  double x = svg.legend(kLeft, bottom + 6, Colour::forward, "forward");
  const bool splits = has_halves(schedule);
  x = svg.legend(x, bottom + 6, Colour::backward, splits ? "backward, input" : "backward");
  if (splits) x = svg.legend(x, bottom + 6, kWeightColour, "backward, weights");
  svg.legend(x, bottom + 6, Colour::idle, "idle");
  return svg.str();
}

}  // namespace ladder
