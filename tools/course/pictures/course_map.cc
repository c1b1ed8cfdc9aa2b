#include "tools/course/pictures/course_map.h"

#include <algorithm>

#include "common/io/svg.h"

namespace ladder {
namespace {

constexpr double kWidth = 150, kHeight = 34, kColumn = 196, kRow = 56, kMargin = 16;

struct Cell {
  size_t column = 0, row = 0;
  double x() const { return kMargin + kColumn * static_cast<double>(column); }
  double y() const { return kMargin + kRow * static_cast<double>(row); }
};
using Cells = std::map<std::string, Cell>;

size_t column_of(const LessonGraph& graph, const std::string& lesson) {
  size_t column = 0;
  for (const std::string& parent : graph.at(lesson)) {
    column = std::max(column, column_of(graph, parent) + 1);
  }
  return column;
}

// A lesson takes the row of its first parent if that is free there, else the next free one.
Cells cells_of(const LessonGraph& graph) {
  Cells cells;
  for (const auto& [lesson, parents] : graph) {  // in the order of their numbers
    Cell cell = {column_of(graph, lesson), 0};
    const auto parent = parents.empty() ? cells.end() : cells.find(parents[0]);
    if (parent != cells.end()) cell.row = parent->second.row;
    const auto is_taken = [&] {
      return std::ranges::any_of(cells, [&](const auto& other) {
        return other.second.column == cell.column && other.second.row == cell.row;
      });
    };
    while (is_taken()) ++cell.row;
    cells[lesson] = cell;
  }
  return cells;
}

// "07 tensor parallel" of "07_tensor_parallel".
std::string title_of(std::string lesson) {
  std::ranges::replace(lesson, '_', ' ');
  return lesson;
}

}  // namespace

std::string course_map(const LessonGraph& graph) {
  const Cells cells = cells_of(graph);
  size_t columns = 0, rows = 0;
  for (const auto& [lesson, cell] : cells) {
    columns = std::max(columns, cell.column + 1);
    rows = std::max(rows, cell.row + 1);
  }
  Svg svg(2 * kMargin + kColumn * static_cast<double>(columns) - (kColumn - kWidth),
          2 * kMargin + kRow * static_cast<double>(rows) - (kRow - kHeight));
  for (const auto& [lesson, parents] : graph) {
    const Cell& to = cells.at(lesson);
    for (const std::string& parent : parents) {
      const Cell& from = cells.at(parent);
      svg.arrow(from.x() + kWidth, from.y() + kHeight / 2, to.x(), to.y() + kHeight / 2);
    }
  }
  for (const auto& [lesson, cell] : cells) {
    svg.rect(Colour::plain, cell.x(), cell.y(), kWidth, kHeight);
    svg.text(cell.x() + kWidth / 2, cell.y() + kHeight / 2 + 4, title_of(lesson),
             {.anchor = Svg::Anchor::middle});
  }
  return svg.str();
}

}  // namespace ladder
