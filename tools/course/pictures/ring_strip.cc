#include "tools/course/pictures/ring_strip.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"
#include "lessons/00_collectives/plan.h"

namespace ladder {
namespace {

constexpr double kSquare = 26, kRow = 44, kTop = 76, kLeft = 60, kGap = 28;

using Vectors = std::vector<std::vector<double>>;

// The squares and arrows of one frame.
class Frame {
 public:
  Frame(Svg& svg, double left, size_t num_ranks) : svg_(svg), left_(left), num_ranks_(num_ranks) {}

  void title(const std::string& text) {
    svg_.text(left_ + kSquare * static_cast<double>(num_ranks_) / 2, kTop - 24, text,
              {.anchor = Svg::Anchor::middle});
  }

  // `share`: of the ranks' numbers that are in the sum.
  void square(size_t rank, size_t part, double number, double share) {
    const double x = x_of(part), y = y_of(rank);
    svg_.shade(Colour::gradients, share, x, y, kSquare, kSquare);
    svg_.text(x + kSquare / 2, y + 17, concat(number),
              {.anchor = Svg::Anchor::middle, .bold = share == 1});
  }

  // From the rank above; what leaves the last rank comes in at the first.
  void arrive(size_t rank, size_t part) {
    constexpr double kStub = kRow - kSquare - 1;
    const double x = x_of(part) + kSquare / 2;
    svg_.arrow(x, y_of(rank) - kStub, x, y_of(rank) - 1);
    if (rank > 0) return;
    const double below = y_of(num_ranks_ - 1) + kSquare;
    svg_.line(x, below, x, below + kStub);
  }

 private:
  double x_of(size_t part) const { return left_ + kSquare * static_cast<double>(part); }
  static double y_of(size_t rank) { return kTop + kRow * static_cast<double>(rank); }

  Svg& svg_;
  double left_;
  size_t num_ranks_;
};

// The vectors at first and after every round.
std::vector<Vectors> states_of(const Plan& plan, Vectors vectors) {
  std::vector<Vectors> states = {vectors};
  run_plan(plan, vectors, [&](size_t) { states.push_back(vectors); });
  return states;
}

}  // namespace

std::string ring_strip(size_t num_ranks) {
  check(num_ranks >= 2 && num_ranks <= 9, "ring_strip: 2 to 9 ranks");
  const Plan plan = make_plan(Algorithm::ring, Collective::all_reduce, num_ranks, num_ranks);
  // The same plan adds up numbers and counts how many each sum consists of.
  Vectors numbers(num_ranks, std::vector<double>(num_ranks)), ones = numbers;
  for (size_t r = 0; r < num_ranks; ++r) {
    std::iota(numbers[r].begin(), numbers[r].end(), static_cast<double>(r * num_ranks + 1));
    std::ranges::fill(ones[r], 1);
  }
  const std::vector<Vectors> sums = states_of(plan, numbers), counts = states_of(plan, ones);
  const std::vector<Round> rounds = rounds_of(plan);
  const auto n = static_cast<double>(num_ranks);
  const double stride = kSquare * n + kGap;
  const double bottom = kTop + kRow * n;
  Svg svg(kLeft + stride * static_cast<double>(sums.size()), bottom + 38);
  svg.text(10, 26, concat("ring all_reduce on ", num_ranks, " ranks: ", rounds.size(), " rounds"),
           {.size = 16, .bold = true});
  for (size_t r = 0; r < num_ranks; ++r) {
    svg.text(10, kTop + kRow * static_cast<double>(r) + 17, concat("rank ", r));
  }
  std::vector<size_t> next(num_ranks);
  for (size_t i = 0; i < sums.size(); ++i) {
    Frame frame(svg, kLeft + stride * static_cast<double>(i), num_ranks);
    frame.title(i == 0 ? "at first" : concat("round ", i));
    for (size_t r = 0; r < num_ranks; ++r) {
      for (size_t part = 0; part < num_ranks; ++part) {
        frame.square(r, part, sums[i][r][part], counts[i][r][part] / n);
      }
    }
    if (i == 0) continue;
    for (size_t r : rounds[i - 1]) {
      const Exchange& exchange = plan[r][next[r]++];
      if (exchange.receive) frame.arrive(r, exchange.receive->range.begin);
    }
  }
  svg.text(10, bottom + 21, "sum of");
  for (size_t count = 1; count <= num_ranks; ++count) {
    const double x = kLeft + kSquare * static_cast<double>(count - 1);
    svg.shade(Colour::gradients, static_cast<double>(count) / n, x, bottom + 4, kSquare, kSquare);
    svg.text(x + kSquare / 2, bottom + 21, concat(count), {.anchor = Svg::Anchor::middle});
  }
  svg.text(kLeft + kSquare * n + 8, bottom + 21, "ranks' numbers");
  return svg.str();
}

}  // namespace ladder
