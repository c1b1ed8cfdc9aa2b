#include "tools/course/pictures/ring_rounds.h"

#include <algorithm>
#include <optional>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"
#include "lessons/14_context_parallel/slices.h"

namespace ladder {
namespace {

constexpr double kLeft = 60, kTop = 76, kWidth = 640, kBar = 24, kRow = 32, kGap = 60;
constexpr size_t kTokens = 64;  // of a rank

// Draws the rounds of one plan from y on. A pair is `pair` pixels wide.
void draw_plan(Svg& svg, const SlicePlan& plan, double y, double pair) {
  const size_t n = plan.num_ranks();
  double x = kLeft;
  for (size_t rank = 0; rank < n; ++rank) {
    svg.text(10, y + kRow * static_cast<double>(rank) + 17, concat("rank ", rank));
  }
  for (size_t round = 0; round < n; ++round) {
    const auto pairs_of = [&](size_t rank) {
      const std::optional<ScoreTile> tile = plan.tile(rank, (rank + n - round) % n);
      return tile ? tile->num_pairs() : 0;
    };
    size_t most = 0;
    for (size_t rank = 0; rank < n; ++rank) most = std::max(most, pairs_of(rank));
    const double width = pair * static_cast<double>(most);
    for (size_t rank = 0; rank < n; ++rank) {
      const double top = y + kRow * static_cast<double>(rank);
      const double busy = pair * static_cast<double>(pairs_of(rank));
      const size_t owner = (rank + n - round) % n;
      if (busy < width) svg.rect(Colour::idle, x + busy, top, width - busy, kBar);
      if (busy == 0) continue;
      svg.rect(Colour::forward, x, top, busy, kBar, concat(pairs_of(rank), " pairs"));
      svg.label(Colour::forward, x, top, busy, kBar, concat("k", owner));
    }
    svg.text(x, y - 6, concat("round ", round));
    svg.line(x, y - 4, x, y + kRow * static_cast<double>(n));
    x += width + 2;
  }
}

}  // namespace

std::string draw_ring_rounds(size_t num_ranks) {
  check(num_ranks >= 2 && num_ranks <= 8, "draw_ring_rounds: 2 to 8 ranks");
  const SlicePlan contiguous(Slicing::contiguous, num_ranks * kTokens, num_ranks);
  const SlicePlan zigzag(Slicing::zigzag, num_ranks * kTokens, num_ranks);
  const double pair = kWidth / static_cast<double>(contiguous.pairs_on_critical_path());
  const double height = kRow * static_cast<double>(num_ranks);
  Svg svg(kLeft + kWidth + 20, kTop + 2 * height + kGap + 36);
  svg.title(concat("ring attention on ", num_ranks, " ranks"));
  svg.text(10, kTop - 26, "contiguous slices", {.bold = true});
  draw_plan(svg, contiguous, kTop, pair);
  const double second = kTop + height + kGap;
  svg.text(10, second - 26, "zigzag slices", {.bold = true});
  draw_plan(svg, zigzag, second, pair);
  const double below = second + height + 10;
  const double next = svg.legend(kLeft, below, Colour::forward, "computes with the keys of rank k");
  svg.legend(next, below, Colour::idle, "waits");
  return svg.str();
}

}  // namespace ladder
