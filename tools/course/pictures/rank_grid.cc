#include "tools/course/pictures/rank_grid.h"

#include <map>
#include <vector>

#include "common/io/svg.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kWidth = 84, kHeight = 34, kLeft = 90, kTop = 92;
constexpr double kBetweenTensor = 26, kBetweenData = 64;
// Below a box: room for a bracket of each tensor place, each kLevel lower than the one before.
constexpr double kLevel = 12, kBelowBrackets = 34;

struct Point {
  double x, y;  // of the box's upper left corner
};

Point point_of(const ProcessGrid& rank) {
  const auto tensor = static_cast<double>(rank.group_rank(Axis::tensor));
  const auto data = static_cast<double>(rank.group_rank(Axis::data));
  const auto stage = static_cast<double>(rank.group_rank(Axis::pipeline));
  const auto tensor_size = static_cast<double>(rank.tensor_size);
  const double replica = tensor_size * (kWidth + kBetweenTensor) - kBetweenTensor + kBetweenData;
  return {kLeft + data * replica + tensor * (kWidth + kBetweenTensor),
          kTop + stage * (kHeight + kLevel * (tensor_size + 1) + kBelowBrackets)};
}

// All ranks of the grid, each as it sees itself.
std::vector<ProcessGrid> ranks_of(ProcessGrid grid) {
  std::vector<ProcessGrid> ranks;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) ranks.push_back(grid);
  return ranks;
}

// The groups along an axis, each with its ranks in the order of their places; none of one rank.
std::vector<std::vector<ProcessGrid>> groups_of(const ProcessGrid& grid, Axis axis) {
  std::map<size_t, std::vector<ProcessGrid>> groups;
  if (grid.size(axis) > 1) {
    for (const ProcessGrid& rank : ranks_of(grid)) groups[rank.group(axis).color].push_back(rank);
  }
  std::vector<std::vector<ProcessGrid>> list;
  for (const auto& [color, ranks] : groups) list.push_back(ranks);
  return list;
}

// "pipeline groups {0 4} {1 5}: ".
std::string groups_text(const ProcessGrid& grid, Axis axis) {
  std::string text = concat(name_of(axis), " groups ");
  for (const auto& group : groups_of(grid, axis)) {
    std::string ranks;
    for (const ProcessGrid& rank : group) ranks += concat(ranks.empty() ? "" : " ", rank.rank);
    text += concat("{", ranks, "} ");
  }
  text.back() = ':';
  return text + " ";
}

void draw_groups(Svg& svg, const ProcessGrid& grid) {
  for (const auto& group : groups_of(grid, Axis::pipeline)) {
    for (size_t i = 1; i < group.size(); ++i) {
      const Point above = point_of(group[i - 1]), below = point_of(group[i]);
      const double x = above.x + kWidth / 2;
      svg.line(Colour::pipeline, x, above.y + kHeight, x, below.y);
    }
  }
  for (const auto& group : groups_of(grid, Axis::data)) {
    const Point first = point_of(group.front()), last = point_of(group.back());
    const double right_of_middle = 14;
    const auto level = static_cast<double>(group.front().group_rank(Axis::tensor) + 1);
    const double low = first.y + kHeight + kLevel * level;
    for (const ProcessGrid& rank : group) {
      const double x = point_of(rank).x + kWidth / 2 + right_of_middle;
      svg.line(Colour::data_group, x, first.y + kHeight, x, low);
    }
    svg.line(Colour::data_group, first.x + kWidth / 2 + right_of_middle, low,
             last.x + kWidth / 2 + right_of_middle, low);
  }
  for (const auto& group : groups_of(grid, Axis::tensor)) {
    constexpr double kMargin = 7;
    const Point first = point_of(group.front()), last = point_of(group.back());
    svg.frame(Colour::tensor_group, first.x - kMargin, first.y - kMargin,
              last.x + kWidth - first.x + 2 * kMargin, kHeight + 2 * kMargin);
  }
}

}  // namespace

std::string draw_grid(ProcessGrid grid) {
  check(grid.context_size == 1, "draw_grid: no room for a context axis");
  const std::vector<ProcessGrid> ranks = ranks_of(grid);
  const Point last = point_of(ranks.back());
  const double legend = last.y + kHeight + kLevel * static_cast<double>(grid.tensor_size) + 24;
  Svg svg(std::max(last.x + kWidth + 30, 560.0), legend + 66);
  svg.title(concat(grid.world_size(), " ranks: ", layout_text(grid)));
  draw_groups(svg, grid);
  for (const ProcessGrid& rank : ranks) {
    const auto [x, y] = point_of(rank);
    const Svg::TextStyle middle = {.anchor = Svg::Anchor::middle};
    svg.rect(Colour::plain, x, y, kWidth, kHeight);
    svg.text(x + kWidth / 2, y + 21, concat("rank ", rank.rank), middle);
    if (rank.group_rank(Axis::data) == 0 && rank.group_rank(Axis::tensor) == 0) {
      svg.text(10, y + 21, concat("stage ", rank.group_rank(Axis::pipeline)));
    }
    if (rank.group_rank(Axis::pipeline) > 0) continue;
    svg.text(x + kWidth / 2, kTop - 14, concat("tensor ", rank.group_rank(Axis::tensor)), middle);
    if (rank.group_rank(Axis::tensor) > 0) continue;
    svg.text(x, kTop - 36, concat("data ", rank.group_rank(Axis::data)), {.bold = true});
  }
  double y = legend;
  const auto explain = [&](Axis axis, Colour colour, const std::string& what) {
    if (grid.size(axis) == 1) return;
    svg.legend(10, y, colour, groups_text(grid, axis) + what);
    y += 20;
  };
  explain(Axis::tensor, Colour::tensor_group, "sums of activations (07)");
  explain(Axis::pipeline, Colour::pipeline, "activations down, gradients up (08)");
  explain(Axis::data, Colour::data_group, "sums of gradients (02, 03)");
  return svg.str();
}

}  // namespace ladder
