#include "tools/course/pictures/two_machines.h"

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kMachines = 2, kOnMachine = 4, kRanks = kMachines * kOnMachine;
constexpr double kWidth = 70, kHeight = 30, kRow = 48, kTop = 92, kBetween = 150, kPanel = 358;

// The box of a rank in a panel that begins at `left`: a machine is a column.
double x_of(double left, size_t rank) {
  return left + 20 + static_cast<double>(rank / kOnMachine) * (kWidth + kBetween);
}
double y_of(size_t rank) { return kTop + static_cast<double>(rank % kOnMachine) * kRow; }

// Draws the machines, and a line for each pair of ranks of different machines that exchange data:
// all, or only those in the same place. Each rank of a pair sends the other one a rank's part of
// the vector to be added, and another one of sums.
void panel(Svg& svg, double left, const std::string& title, bool only_counterparts) {
  svg.text(left + 10, 24, title, {.size = 15, .bold = true});
  size_t num_pairs = 0;
  for (size_t a = 0; a < kOnMachine; ++a) {
    for (size_t b = kOnMachine; b < kRanks; ++b) {
      if (only_counterparts && b != a + kOnMachine) continue;
      ++num_pairs;
      svg.line(Colour::communication, x_of(left, a) + kWidth, y_of(a) + kHeight / 2, x_of(left, b),
               y_of(b) + kHeight / 2);
    }
  }
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const double x = x_of(left, rank), y = y_of(rank);
    svg.rect(Colour::plain, x, y, kWidth, kHeight);
    svg.text(x + kWidth / 2, y + 19, concat("rank ", rank), {.anchor = Svg::Anchor::middle});
    if (rank % kOnMachine > 0) continue;
    svg.text(x, kTop - 22, concat("machine ", rank / kOnMachine), {.bold = true});
    if (!only_counterparts) continue;
    svg.frame(Colour::gradients, x - 7, y - 7, kWidth + 14, kRow * (kOnMachine - 1) + kHeight + 14);
  }
  const double y = y_of(kOnMachine - 1) + kHeight + 36;
  const size_t parts = 2 * num_pairs;  // that leave a machine
  svg.text(left + 10, y,
           concat(num_pairs, " pairs; a machine sends ", parts, " parts of n/", kRanks, ": ",
                  parts / kRanks, " n bytes"));
}

}  // namespace

std::string draw_two_machines() {
  Svg svg(2 * kPanel, kTop + kOnMachine * kRow + 64);
  panel(svg, 0, "all ranks with all", false);
  panel(svg, kPanel, "first within a machine, then between", true);
  const double y = kTop + kOnMachine * kRow + 44;
  const double x = svg.legend(10, y, Colour::communication, "over the network");
  svg.legend(x, y, Colour::gradients, "sums within a machine");
  return svg.str();
}

}  // namespace ladder
