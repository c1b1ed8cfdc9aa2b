#include "tools/course/pictures/resharding.h"

#include <utility>
#include <vector>

#include "common/checkpoint/overlap.h"
#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kRows = 6, kColumns = 4, kElements = kRows * kColumns;
constexpr double kCell = 28, kTop = 82, kLeft = 10, kPanel = 366, kBetween = 180;

using Slices = std::vector<PlacedElements>;

Slices shards_of(size_t num_ranks) {
  Slices shards;
  const size_t each = kElements / num_ranks;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    shards.push_back({{0, kElements, kElements}, rank * each, each});
  }
  return shards;
}

Slices columns_of(size_t num_ranks) {
  Slices slices;
  const size_t each = kColumns / num_ranks;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    slices.push_back({{rank * each, each, kColumns}, 0, kElements / num_ranks});
  }
  return slices;
}

// The tensor at (x, y).
class Matrix {
 public:
  Matrix(Svg& svg, double x, double y) : svg_(svg), x_(x), y_(y) {}

  // A rank's elements have its shade and the number of a file.
  void cell(size_t element, Colour colour, size_t shade, size_t file) {
    const double x = x_of(element), y = y_of(element);
    svg_.shade(colour, 0.2 + 0.2 * static_cast<double>(shade), x, y, kCell, kCell);
    svg_.text(x + kCell / 2, y + 18, concat(file), {.anchor = Svg::Anchor::middle});
  }
  // A frame around elements [first, end). It may begin and end within a row.
  void frame(size_t first, size_t end) {
    const double bottom = y_of(end - 1) + kCell, right = x_of(end - 1) + kCell;
    const bool is_one_row = first / kColumns == (end - 1) / kColumns;
    const double edge = is_one_row ? right : x_ + kCell * kColumns;
    const double start = is_one_row ? x_of(first) : x_;
    svg_.curve(Colour::communication, {{x_of(first), y_of(first)},
                                       {edge, y_of(first)},
                                       {edge, bottom - kCell},
                                       {right, bottom - kCell},
                                       {right, bottom},
                                       {start, bottom},
                                       {start, y_of(first) + kCell},
                                       {x_of(first), y_of(first) + kCell},
                                       {x_of(first), y_of(first)}});
  }

 private:
  double x_of(size_t element) const { return x_ + kCell * static_cast<double>(element % kColumns); }
  double y_of(size_t element) const { return y_ + kCell * static_cast<double>(element / kColumns); }

  Svg& svg_;
  double x_, y_;
};

// Who has written what, and who reads what. REQUIRES: `read` are shards.
void draw_panel(Svg& svg, double x, const std::string& from, const Slices& written,
                const std::string& to, const Slices& read) {
  svg.text(x, kTop - 14, from);
  svg.text(x + kBetween, kTop - 14, to);
  Matrix left(svg, x, kTop), right(svg, x + kBetween, kTop);
  svg.arrow(x + kCell * kColumns + 14, kTop + kCell * kRows / 2, x + kBetween - 14,
            kTop + kCell * kRows / 2);
  const PlacedElements whole = shards_of(1)[0];
  std::vector<std::pair<size_t, size_t>> frames;  // drawn last, above all cells
  for (size_t file = 0; file < written.size(); ++file) {
    for (const Overlap& run : overlaps(written[file], whole)) {
      for (size_t i = 0; i < run.count; ++i) {
        left.cell(run.to + i, Colour::parameters, file, file);
      }
    }
    for (size_t rank = 0; rank < read.size(); ++rank) {
      for (const Overlap& run : overlaps(written[file], read[rank])) {
        const size_t first = read[rank].first + run.to;
        for (size_t i = 0; i < run.count; ++i) {
          right.cell(first + i, Colour::activations, rank, file);
        }
        frames.emplace_back(first, first + run.count);
      }
    }
  }
  for (const auto& [first, end] : frames) right.frame(first, end);
  svg.text(x + kBetween, kTop + kCell * kRows + 20, counted(frames.size(), "range"));
}

}  // namespace

std::string draw_resharding() {
  Svg svg(2 * kPanel - 36, kTop + kCell * kRows + 66);
  svg.title("A tensor of 6 x 4 elements: who has written it, and who reads it");
  draw_panel(svg, kLeft, "data=4", shards_of(4), "data=3", shards_of(3));
  draw_panel(svg, kLeft + kPanel, "tensor=2", columns_of(2), "data=3", shards_of(3));
  const double bottom = kTop + kCell * kRows + 46;
  double x = svg.legend(kLeft, bottom, Colour::parameters, "written, a shade a rank");
  x = svg.legend(x, bottom, Colour::activations, "read, a shade a rank");
  svg.text(x, bottom + 11, "numbers: files that have the elements");
  return svg.str();
}

}  // namespace ladder
