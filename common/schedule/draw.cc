#include "common/schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// A forward or backward. Times count from the beginning of the timeline.
struct Box {
  size_t stage = 0;
  bool is_forward = false;
  std::string number;  // its micro-batch's number
  double begin = 0, end = 0;
};

std::vector<Box> boxes_of(const Schedule& schedule, const Timeline& timeline) {
  const double origin = extent_of(timeline).begin;
  std::vector<Box> boxes;
  for (size_t s = 0; s < schedule.size(); ++s) {
    for (size_t i = 0; i < schedule[s].size(); ++i) {
      const Action& action = schedule[s][i];
      const bool is_forward = action.kind == ActionKind::forward;
      if (!is_forward && action.kind != ActionKind::backward) continue;
      const auto [begin, end] = timeline[s][i];
      boxes.push_back(
          {s, is_forward, std::to_string(action.micro_batch), begin - origin, end - origin});
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
size_t wanted_columns(const Box& box, size_t digits) { return digits + (box.is_forward ? 1 : 2); }

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
  if (columns < wanted_columns(box, digits))
    return std::string(columns, box.is_forward ? 'f' : 'b');
  if (box.is_forward) return number + std::string(columns - number.size(), ' ');
  return concat("[", number, std::string(columns - number.size() - 2, ' '), "]");
}

}  // namespace

std::string draw_text(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<Box> boxes = boxes_of(schedule, timeline);
  const Bubble bubble = bubble_of(schedule, timeline);
  const size_t digits = std::to_string(num_micro_batches(schedule) - 1).size();
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
  text << "n forward, [n] backward, . idle; bubble " << percent(bubble.overall, 1) << "\n";
  return text.str();
}

std::string draw_svg(const std::string& name, const Schedule& schedule, const Timeline& timeline) {
  constexpr double kLeft = 70, kTop = 44, kWidth = 960, kRow = 34, kBox = 28, kDigit = 8;
  const double length = extent_of(timeline).length(), scale = length > 0 ? kWidth / length : 0;
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
    svg.rect(Colour::idle, kLeft, top_of(s), kWidth, kBox);
    svg.text(kLeft + kWidth + 8, top_of(s) + 19, "idle " + percent(bubble.idle[s], 0));
  }
  for (const Box& box : boxes_of(schedule, timeline)) {
    const double x = kLeft + box.begin * scale, width = (box.end - box.begin) * scale;
    svg.rect(box.is_forward ? Colour::forward : Colour::backward, x, top_of(box.stage), width,
             kBox);
    if (width < kDigit * static_cast<double>(box.number.size()) + 2) continue;
    svg.text(x + width / 2, top_of(box.stage) + 19, box.number, {.anchor = Svg::Anchor::middle});
  }
  double x = svg.legend(kLeft, bottom + 6, Colour::forward, "forward");
  x = svg.legend(x, bottom + 6, Colour::backward, "backward");
  svg.legend(x, bottom + 6, Colour::idle, "idle");
  return svg.str();
}

}  // namespace ladder
