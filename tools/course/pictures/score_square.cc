#include "tools/course/pictures/score_square.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"
#include "lessons/14_context_parallel/slices.h"

namespace ladder {
namespace {

constexpr double kCell = 31, kTop = 108, kLeft = 74, kPanel = 360, kLine = 20;
constexpr double kSlice = 24, kRank = 57;  // columns on the left of the square
constexpr Svg::TextStyle kMiddle = {.anchor = Svg::Anchor::middle};

// The last round is the darkest. Ink of the page can be read on the others.
double share_of(size_t round, size_t num_ranks) {
  return round + 1 == num_ranks ? 1 : 0.65 * number_of(round + 1) / number_of(num_ranks);
}

// One square and what is below it. A slice has one token.
class Panel {
 public:
  Panel(Svg& svg, double left, Slicing slicing, size_t num_ranks)
      : svg_(svg),
        left_(left),
        n_(num_ranks),
        plan_(slicing, 2 * num_ranks, num_ranks),
        cells_(num_ranks, std::vector<double>(num_ranks)) {}

  void draw(const std::string& title) {
    const double end = left_ + kLeft + 2 * kCell * static_cast<double>(n_);
    svg_.text(left_ + 10, kTop - 62, title, {.bold = true});
    svg_.text((left_ + kLeft + end) / 2, kTop - 42, "keys", kMiddle);
    svg_.text(left_ + 10, kTop - 24, "queries");
    svg_.text(left_ + kSlice, kTop - 6, "slice", kMiddle);
    svg_.text(left_ + kRank, kTop - 6, "rank", kMiddle);
    svg_.text(end + 4, kTop - 24, "slice", {.size = 12});
    svg_.text(end + 4, kTop - 6, "rank", {.size = 12});
    for (int32_t slice = 0; slice < static_cast<int32_t>(2 * n_); ++slice) {
      svg_.text(x_of(slice) + kCell / 2, kTop - 24, concat(slice), kMiddle);
      svg_.text(left_ + kSlice, y_of(slice) + 21, concat(slice), kMiddle);
    }
    for (size_t rank = 0; rank < n_; ++rank) {
      for (const int32_t position : plan_.positions(rank)) {
        svg_.text(x_of(position) + kCell / 2, kTop - 6, concat(rank), kMiddle);
        svg_.text(left_ + kRank, y_of(position) + 21, concat(rank), kMiddle);
      }
      for (size_t round = 0; round < n_; ++round) draw_tile(rank, round);
    }
    draw_table();
  }

 private:
  double x_of(int32_t position) const { return left_ + kLeft + kCell * position; }
  static double y_of(int32_t position) { return kTop + kCell * position; }

  // What the rank computes in the round.
  void draw_tile(size_t rank, size_t round) {
    const size_t owner = (rank + n_ - round) % n_;
    const std::optional<ScoreTile> tile = plan_.tile(rank, owner);
    if (!tile) return;
    const std::vector<int32_t> queries = plan_.positions(rank), keys = plan_.positions(owner);
    for (size_t q = 0; q < tile->num_queries; ++q) {
      for (size_t k = 0; k < (tile->causal ? q + 1 : tile->num_keys); ++k) {
        cell(queries[tile->first_query + q], keys[k], round);
        cells_[round][rank] += queries[tile->first_query + q] == keys[k] ? 0.5 : 1;
      }
    }
  }

  void cell(int32_t query, int32_t key, size_t round) {
    const double x = x_of(key), y = y_of(query), share = share_of(round, n_);
    const bool is_half = query == key;
    if (is_half) {
      svg_.frame(Colour::idle, x + 1, y + 1, kCell - 2, kCell - 2);
      svg_.area(Colour::forward, {{x, y}, {x, y + kCell}, {x + kCell, y + kCell}}, share);
    } else {
      svg_.shade(Colour::forward, share, x, y, kCell, kCell);
    }
    Svg::TextStyle style = kMiddle;
    if (share == 1) style.on = Colour::forward;
    svg_.text(x + kCell * (is_half ? 0.32 : 0.5), y + (is_half ? 26 : 21), concat(round), style);
  }

  // How many cells each rank has in each round.
  void draw_table() {
    constexpr double kColumn = 46;
    const double first = left_ + kLeft + 40;
    double y = kTop + 2 * kCell * static_cast<double>(n_) + 28;
    svg_.text(left_ + 10, y, "cells of rank");
    for (size_t rank = 0; rank < n_; ++rank) {
      svg_.text(first + kColumn * static_cast<double>(rank), y, concat(rank), kMiddle);
    }
    svg_.text(first + kColumn * static_cast<double>(n_), y, "longest", kMiddle);
    double sum = 0;
    std::string terms;
    for (size_t round = 0; round < n_; ++round) {
      y += kLine;
      svg_.shade(Colour::forward, share_of(round, n_), left_ + 10, y - 11, 12, 12);
      svg_.text(left_ + 28, y, concat("round ", round));
      const double longest = *std::ranges::max_element(cells_[round]);
      for (size_t rank = 0; rank < n_; ++rank) {
        svg_.text(first + kColumn * static_cast<double>(rank), y, concat(cells_[round][rank]),
                  kMiddle);
      }
      svg_.text(first + kColumn * static_cast<double>(n_), y, concat(longest),
                {.anchor = Svg::Anchor::middle, .bold = true});
      sum += longest;
      terms += concat(terms.empty() ? "" : " + ", longest);
    }
    svg_.text(left_ + 10, y + kLine + 6, concat("all rounds last ", terms, " = ", sum, " cells"),
              {.bold = true});
  }

  Svg& svg_;
  double left_;
  size_t n_;
  SlicePlan plan_;
  std::vector<std::vector<double>> cells_;  // by round, by rank
};

}  // namespace

std::string draw_score_squares(size_t num_ranks) {
  check(num_ranks >= 2 && num_ranks <= 4, "draw_score_squares: 2 to 4 ranks");
  const auto n = static_cast<double>(num_ranks);
  Svg svg(2 * kPanel, kTop + 2 * kCell * n + kLine * (n + 2) + 28);
  svg.title(concat("Attention on ", num_ranks, " ranks: the number of a cell is its round"));
  Panel(svg, 0, Slicing::contiguous, num_ranks).draw("contiguous slices");
  Panel(svg, kPanel, Slicing::zigzag, num_ranks).draw("zigzag");
  return svg.str();
}

}  // namespace ladder
