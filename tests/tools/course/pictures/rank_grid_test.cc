#include "tools/course/pictures/rank_grid.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

TEST_CASE("eight ranks, two of each axis: boxes, frames and lines") {
  const std::string svg = draw_grid({.pipeline_size = 2, .data_size = 2, .tensor_size = 2});
  for (int rank = 0; rank < 8; ++rank) CHECK(count_text(svg, concat("rank ", rank)) == 1);
  const std::vector<std::string> boxes = rects_of(svg, "plain");
  REQUIRE(boxes.size() == 8);
  CHECK(boxes[0] == "90 92 84 34");
  CHECK(boxes[1] == "200 92 84 34");  // the next one of the tensor group
  CHECK(boxes[2] == "348 92 84 34");  // the other replica
  CHECK(boxes[4] == "90 196 84 34");  // the next stage
  const std::vector<std::string> tensor_groups = rects_of(svg, "tensor_group edge");
  CHECK(tensor_groups == std::vector<std::string>{"83 85 208 48", "341 85 208 48", "83 189 208 48",
                                                  "341 189 208 48"});
  CHECK(count_text(svg, "tensor groups {0 1} {2 3} {4 5} {6 7}: sums of activations (07)") == 1);
  CHECK(count_text(svg,
                   "pipeline groups {0 4} {1 5} {2 6} {3 7}: activations down, "
                   "gradients up (08)") == 1);
  CHECK(count_text(svg, "data groups {0 2} {1 3} {4 6} {5 7}: sums of gradients (02, 03)") == 1);
}

TEST_CASE("an axis of one rank has no groups") {
  const std::string svg = draw_grid({.data_size = 3});
  CHECK(rects_of(svg, "plain").size() == 3);
  CHECK(rects_of(svg, "tensor_group edge").empty());
  CHECK(svg.find("tensor groups") == std::string::npos);
  CHECK(count_text(svg, "data groups {0 1 2}: sums of gradients (02, 03)") == 1);
}

}  // namespace
}  // namespace ladder
