#include "tools/course/pictures/collective_frames.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kSquare = 17, kName = 18, kFrame = 177, kFrameHeight = 226, kTop = 36;
constexpr Colour kMoved = Colour::communication;

using Vectors = std::vector<std::vector<double>>;
struct Point {
  double x, y;
};

// Ink of the page can be read on sums that are not complete.
double opacity_of(double share) { return share == 1 ? 1 : 0.65 * share; }

// The ranks of one frame, on a circle around its middle.
class Frame {
 public:
  Frame(Svg& svg, double left, double top, size_t num_ranks)
      : svg_(svg), left_(left), top_(top), num_ranks_(num_ranks) {}

  void title(const std::string& text) {
    svg_.frame(Colour::idle, left_ + 3, top_ + 3, kFrame - 6, kFrameHeight - 6);
    svg_.text(left_ + kFrame / 2, top_ + 24, text, {.anchor = Svg::Anchor::middle, .bold = true});
  }

  // `share`: of the ranks' numbers that are in the sum.
  void square(size_t rank, size_t part, double number, double share, bool has_come) {
    const Point corner = square_of(rank, part);
    svg_.shade(Colour::gradients, opacity_of(share), corner.x, corner.y, kSquare, kSquare);
    Svg::TextStyle style = {.anchor = Svg::Anchor::middle, .size = 12};
    if (share == 1) style.on = Colour::gradients;
    svg_.text(corner.x + kSquare / 2, corner.y + 13.5, concat(number), style);
    if (has_come) svg_.frame(kMoved, corner.x + 1, corner.y + 1, kSquare - 2, kSquare - 2);
  }

  void name(size_t rank) {
    const Point middle = middle_of(rank);
    svg_.text(middle.x, middle.y - height() / 2 + 12, concat("rank ", rank),
              {.anchor = Svg::Anchor::middle, .size = 12});
  }

  // The arrow ends at the boxes' borders. It keeps to its left, so that one back has room, and its
  // parts stand to the left of it, near the sender.
  void message(size_t from, size_t to, const std::string& parts) {
    constexpr double kGap = 4, kBeside = 5;
    const Svg::TextStyle style = {.anchor = Svg::Anchor::middle, .size = 12, .bold = true};
    const Point a = middle_of(from), b = middle_of(to);
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const double dx = (b.x - a.x) / length, dy = (b.y - a.y) / length;
    // From a middle along the arrow to the border of the box.
    const double inside = std::min(width() / 2 / std::max(std::abs(dx), 1e-9),
                                   height() / 2 / std::max(std::abs(dy), 1e-9));
    const double begin = inside + kGap, end = length - inside - kGap;
    // Along the arrow, and to the left of the line between the middles.
    const auto point = [&](double along, double left) {
      return std::pair(a.x + dx * along + dy * left, a.y + dy * along - dx * left);
    };
    svg_.arrow({point(begin, kBeside), point(end, kBeside)}, kMoved);
    const double half_width = text_width(parts, style.size, true) / 2, half_height = 5;
    const double left = half_width * std::abs(dy) + half_height * std::abs(dx) + 2;
    const auto [x, y] = point(begin + std::min((end - begin) / 2, 22.0), kBeside + left);
    svg_.text(x, y + half_height, parts, style);
  }

 private:
  double width() const { return kSquare * static_cast<double>(num_ranks_); }
  static double height() { return kSquare + kName; }
  Point middle_of(size_t rank) const {
    // Of four, one is in each corner.
    const double n = static_cast<double>(num_ranks_);
    const double angle = std::numbers::pi * (2 * static_cast<double>(rank) / n - 1 + 1 / n);
    return {left_ + kFrame / 2 + (num_ranks_ == 4 ? 64 : 44) * std::cos(angle),
            top_ + 128 + (num_ranks_ == 4 ? 90 : 66) * std::sin(angle)};
  }
  Point square_of(size_t rank, size_t part) const {
    const Point middle = middle_of(rank);
    return {middle.x - width() / 2 + kSquare * static_cast<double>(part),
            middle.y - height() / 2 + kName};
  }

  Svg& svg_;
  double left_, top_;
  size_t num_ranks_;
};

// The vectors at first and after every round.
std::vector<Vectors> states_of(const Plan& plan, Vectors vectors) {
  std::vector<Vectors> states = {vectors};
  run_plan(plan, vectors, [&](size_t) { states.push_back(vectors); });
  return states;
}

// "0 1", or "all".
std::string parts_text(const Elements& range, size_t num_parts) {
  if (range.size() == num_parts) return "all";
  std::string text;
  for (size_t part = range.begin; part < range.end; ++part)
    text += concat(text.empty() ? "" : " ", part);
  return text;
}

// The frames' squares: numbers, and how many ranks' numbers each sum consists of.
struct Sums {
  std::vector<Vectors> values, counts;
};
Sums sums_of(const Plan& plan) {
  const size_t n = plan.size();
  Vectors numbers(n, std::vector<double>(n)), ones = numbers;
  for (size_t r = 0; r < n; ++r) {
    std::iota(numbers[r].begin(), numbers[r].end(), static_cast<double>(r * n + 1));
    std::ranges::fill(ones[r], 1);
  }
  return {states_of(plan, numbers), states_of(plan, ones)};
}

void draw_legend(Svg& svg, double left, double top, size_t num_ranks) {
  svg.text(left, top, "sums of numbers of");
  for (size_t count = 1; count <= num_ranks; ++count) {
    const double share = static_cast<double>(count) / static_cast<double>(num_ranks);
    const double y = top - 6 + (kSquare + 4) * static_cast<double>(count);
    svg.shade(Colour::gradients, opacity_of(share), left, y, kSquare, kSquare);
    svg.text(left + kSquare + 8, y + 14,
             count == num_ranks ? concat("all ", count, " ranks")
                                : concat(count, count == 1 ? " rank" : " ranks"));
  }
  const double y = top + 6 + (kSquare + 4) * static_cast<double>(num_ranks + 1);
  svg.arrow({{left, y}, {left + 22, y}}, kMoved);
  svg.text(left + 30, y + 5, "the parts that move");
  svg.frame(kMoved, left + 1, y + 17, kSquare - 2, kSquare - 2);
  svg.text(left + kSquare + 8, y + 30, "came in this round");
}

}  // namespace

std::string draw_all_reduce(Algorithm algorithm, size_t num_ranks) {
  check(num_ranks >= 2 && num_ranks <= 4, "draw_all_reduce: 2 to 4 ranks");
  const Plan plan = make_plan(algorithm, Collective::all_reduce, num_ranks, num_ranks);
  const Sums sums = sums_of(plan);
  const std::vector<Round> rounds = rounds_of(plan);
  const size_t columns = 1 + (rounds.size() + 1) / 2;
  Svg svg(std::max(12 + kFrame * static_cast<double>(columns), 542.0), kTop + 2 * kFrameHeight + 6);
  svg.title(concat(name_of(algorithm), " all_reduce on ", num_ranks, " ranks: ", rounds.size(),
                   " rounds"));
  std::vector<size_t> next(num_ranks);
  for (size_t i = 0; i <= rounds.size(); ++i) {
    const bool is_lower = i >= columns;
    const size_t column = is_lower ? i - columns + 1 : i;
    Frame frame(svg, 6 + kFrame * static_cast<double>(column), kTop + kFrameHeight * is_lower,
                num_ranks);
    frame.title(i == 0 ? "at first" : concat("round ", i - 1));
    std::vector<std::vector<bool>> has_come(num_ranks, std::vector<bool>(num_ranks));
    if (i > 0) {
      for (size_t r : rounds[i - 1]) {
        const Exchange& exchange = plan[r][next[r]++];
        if (!exchange.receive) continue;
        const Elements range = exchange.receive->range;
        for (size_t part = range.begin; part < range.end; ++part) has_come[r][part] = true;
        frame.message(exchange.receive->peer, r, parts_text(range, num_ranks));
      }
    }
    for (size_t r = 0; r < num_ranks; ++r) {
      frame.name(r);
      for (size_t part = 0; part < num_ranks; ++part) {
        const double share = sums.counts[i][r][part] / static_cast<double>(num_ranks);
        frame.square(r, part, sums.values[i][r][part], share, has_come[r][part]);
      }
    }
  }
  draw_legend(svg, 14, kTop + kFrameHeight + 60, num_ranks);
  return svg.str();
}

}  // namespace ladder
