#include "tools/course/pictures/course_map.h"

#include <algorithm>
#include <set>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kWidth = 142, kHeight = 40, kColumn = 168, kRow = 54, kLeft = 40, kTop = 66;

struct Cell {
  size_t column = 0, row = 0;
  size_t home = 0;  // the number in the path of the lesson that it stands beside
  double left() const { return kLeft + kColumn * static_cast<double>(column); }
  double right() const { return left() + kWidth; }
  double top() const { return kTop + kRow * static_cast<double>(row); }
  double middle() const { return top() + kHeight / 2; }
};
using Cells = std::map<std::string, Cell>;

bool leads_to(const LessonGraph& graph, const std::string& from, const std::string& to) {
  return from == to || std::ranges::any_of(graph.at(to), [&](const std::string& parent) {
           return leads_to(graph, from, parent);
         });
}

// The same graph with the arrows that are drawn. Lessons are read in the order of their numbers.
LessonGraph drawn_arrows(LessonGraph graph) {
  for (auto& [lesson, parents] : graph) {
    std::erase_if(parents, [&](const std::string& parent) { return parent > lesson; });
  }
  LessonGraph drawn = graph;
  for (auto& [lesson, parents] : drawn) {
    std::erase_if(parents, [&](const std::string& parent) {
      return std::ranges::any_of(graph.at(lesson), [&](const std::string& other) {
        return other != parent && leads_to(graph, parent, other);
      });
    });
  }
  return drawn;
}

// Where a lesson stands that is not in the path, in the first row of its home that has room for it
// and for its arrow.
Cell cell_of(const std::vector<std::string>& parents, const Cells& cells) {
  Cell cell = {.column = 1};
  for (const std::string& parent : parents) cell.home = std::max(cell.home, cells.at(parent).home);
  const Cell* next_to = nullptr;
  for (const std::string& parent : parents) {
    const Cell& from = cells.at(parent);
    if (from.column == 0) continue;
    // A parent that stands higher up has its arrow beside its own column.
    if (from.home == cell.home) next_to = &from;
    cell.column = std::max(cell.column, from.column + (from.home == cell.home ? 1 : 0));
  }
  const auto is_taken = [&](size_t row) {
    return std::ranges::any_of(cells, [&](const auto& other) {
      return other.second.home == cell.home && other.second.row == row &&
             other.second.column > (next_to == nullptr ? 0 : next_to->column);
    });
  };
  cell.row = next_to == nullptr ? 0 : next_to->row;
  while (is_taken(cell.row)) ++cell.row;
  return cell;
}

// All cells. Rows count from the top of the map.
Cells cells_of(const LessonGraph& arrows, const std::vector<std::string>& path) {
  Cells cells;
  for (size_t i = 0; i < path.size(); ++i) cells[path[i]] = {.home = i};
  for (const auto& [lesson, parents] : arrows) {  // in the order of their numbers
    if (!cells.contains(lesson)) cells[lesson] = cell_of(parents, cells);
  }
  std::vector<size_t> rows(path.size() + 1);  // in front of each lesson of the path
  for (const auto& [lesson, cell] : cells) {
    rows[cell.home + 1] = std::max(rows[cell.home + 1], cell.row + 1);
  }
  for (size_t i = 1; i < rows.size(); ++i) rows[i] += rows[i - 1];
  for (auto& [lesson, cell] : cells) cell.row += rows[cell.home];
  return cells;
}

// "07 tensor parallel" of "07_tensor_parallel", in two lines if it is long.
void draw_lesson(Svg& svg, Colour colour, const Cell& cell, std::string lesson) {
  std::ranges::replace(lesson, '_', ' ');
  svg.rect(colour, cell.left(), cell.top(), kWidth, kHeight);
  if (svg.label(colour, cell.left(), cell.top(), kWidth, kHeight, lesson)) return;
  const size_t blank = lesson.rfind(' ');
  svg.label(colour, cell.left(), cell.top() + 3, kWidth, kHeight / 2, lesson.substr(0, blank));
  svg.label(colour, cell.left(), cell.top() + kHeight / 2 - 3, kWidth, kHeight / 2,
            lesson.substr(blank + 1));
}

// Between lessons of the path: straight down to the next one, and to others past them on the left,
// in the lane of the parent.
void draw_in_path(Svg& svg, const Cell& from, const Cell& to, double lane) {
  constexpr double kFromLeft = 22, kApart = 7;
  if (to.home == from.home + 1) {
    return svg.arrow(from.left() + kFromLeft, from.top() + kHeight, from.left() + kFromLeft,
                     to.top());
  }
  const double x = kLeft - 12 - 12 * lane;
  svg.arrow({{from.left(), from.middle() + kApart},
             {x, from.middle() + kApart},
             {x, to.middle() - kApart},
             {to.left(), to.middle() - kApart}});
}

// To the right, or down beside the parent's column and then to the side of the lesson.
void draw_arrow(Svg& svg, const Cell& from, const Cell& to) {
  const double x = to.column > from.column ? to.left() : to.right();
  if (from.row == to.row) return svg.arrow(from.right(), from.middle(), x, to.middle());
  const double beside = from.right() + (kColumn - kWidth) / 2;
  svg.arrow({{from.right(), from.middle()},
             {beside, from.middle()},
             {beside, to.middle()},
             {x, to.middle()}});
}

void draw_arrows(Svg& svg, const LessonGraph& arrows, const Cells& cells) {
  std::set<std::string> parents_aside;  // of arrows past other lessons of the path
  for (const auto& [lesson, parents] : arrows) {
    const Cell& to = cells.at(lesson);
    for (const std::string& parent : parents) {
      const Cell& from = cells.at(parent);
      if (from.column > 0 || to.column > 0) {
        draw_arrow(svg, from, to);
        continue;
      }
      if (to.home > from.home + 1) parents_aside.insert(parent);
      const auto lane = std::distance(parents_aside.begin(), parents_aside.find(parent));
      draw_in_path(svg, from, to, static_cast<double>(lane));
    }
  }
}

}  // namespace

std::string course_map(const LessonGraph& graph, const std::vector<std::string>& core_path) {
  const LessonGraph arrows = drawn_arrows(graph);
  const Cells cells = cells_of(arrows, core_path);
  Cell last;
  for (const auto& [lesson, cell] : cells) {
    last.column = std::max(last.column, cell.column);
    last.row = std::max(last.row, cell.row);
  }
  Svg svg(last.right() + 26, last.top() + kHeight + 16);
  svg.title("The lessons. An arrow leads to a lesson from the one that it builds on.");
  const double next = svg.legend(kLeft, 38, Colour::emphasis, "the core path, from top to bottom");
  svg.legend(next, 38, Colour::plain, "as you wish");
  for (size_t i = 1; i < core_path.size(); ++i) {
    constexpr double kThickness = 8;
    const Cell &from = cells.at(core_path[i - 1]), &to = cells.at(core_path[i]);
    svg.rect(Colour::emphasis, from.left() + (kWidth - kThickness) / 2, from.top() + kHeight,
             kThickness, to.top() - from.top() - kHeight);
  }
  draw_arrows(svg, arrows, cells);
  for (const auto& [lesson, cell] : cells) {
    draw_lesson(svg, cell.column == 0 ? Colour::emphasis : Colour::plain, cell, lesson);
  }
  return svg.str();
}

}  // namespace ladder
