#include "tools/course/pictures/course_map.h"

#include <algorithm>

#include "common/io/svg.h"

namespace ladder {
namespace {

constexpr double kWidth = 150, kHeight = 34, kColumn = 196, kRow = 56, kMargin = 16;

struct Place {
  size_t column = 0, row = 0;
  double x() const { return kMargin + kColumn * static_cast<double>(column); }
  double y() const { return kMargin + kRow * static_cast<double>(row); }
};
using Places = std::map<std::string, Place>;

size_t column_of(const LessonGraph& graph, const std::string& lesson) {
  size_t column = 0;
  for (const std::string& parent : graph.at(lesson)) {
    column = std::max(column, column_of(graph, parent) + 1);
  }
  return column;
}

// A lesson takes the row of its first parent if that is free there, else the next free one.
Places places_of(const LessonGraph& graph) {
  Places places;
  for (const auto& [lesson, parents] : graph) {  // in the order of their numbers
    Place place = {column_of(graph, lesson), 0};
    const auto parent = parents.empty() ? places.end() : places.find(parents[0]);
    if (parent != places.end()) place.row = parent->second.row;
    const auto is_taken = [&] {
      return std::ranges::any_of(places, [&](const auto& other) {
        return other.second.column == place.column && other.second.row == place.row;
      });
    };
    while (is_taken()) ++place.row;
    places[lesson] = place;
  }
  return places;
}

// "07 tensor parallel" of "07_tensor_parallel".
std::string title_of(std::string lesson) {
  std::ranges::replace(lesson, '_', ' ');
  return lesson;
}

}  // namespace

std::string course_map(const LessonGraph& graph) {
  const Places places = places_of(graph);
  size_t columns = 0, rows = 0;
  for (const auto& [lesson, place] : places) {
    columns = std::max(columns, place.column + 1);
    rows = std::max(rows, place.row + 1);
  }
  Svg svg(2 * kMargin + kColumn * static_cast<double>(columns) - (kColumn - kWidth),
          2 * kMargin + kRow * static_cast<double>(rows) - (kRow - kHeight));
  for (const auto& [lesson, parents] : graph) {
    const Place& to = places.at(lesson);
    for (const std::string& parent : parents) {
      const Place& from = places.at(parent);
      svg.arrow(from.x() + kWidth, from.y() + kHeight / 2, to.x(), to.y() + kHeight / 2);
    }
  }
  for (const auto& [lesson, place] : places) {
    svg.rect(Colour::plain, place.x(), place.y(), kWidth, kHeight);
    svg.text(place.x() + kWidth / 2, place.y() + kHeight / 2 + 4, title_of(lesson),
             {.anchor = Svg::Anchor::middle});
  }
  return svg.str();
}

}  // namespace ladder
