#include "tools/course/pictures/block_split.h"

#include "tests/catch.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

constexpr Gpt2Config kModel = {2, 4, 64, 256, 32};

// Those of the weights, from left to right; the last one is the legend's.
std::vector<std::string> parts_of(const std::string& svg, const std::string& colour) {
  std::vector<std::string> parts = rects_of(svg, colour);
  parts.pop_back();
  return parts;
}

TEST_CASE("each weight in its shape, with the rank's part where it lies") {
  const std::string svg = block_split(kModel, 1, 2);
  // C is 54 pixels: c_attn (C, 3 C), attn.c_proj (C, C), c_fc (C, 4 C), mlp.c_proj (4 C, C).
  CHECK(parts_of(svg, "idle") == std::vector<std::string>{"202 103 162 54", "488 103 54 54",
                                                          "202 337 216 54", "542 256 54 216"});
  // The second half of the columns of each of q, k and v; of the rows; of the columns; of the rows.
  CHECK(parts_of(svg, "parameters") ==
        std::vector<std::string>{"229 103 27 54", "283 103 27 54", "337 103 27 54", "488 130 54 27",
                                 "310 337 108 54", "542 364 54 108"});
  CHECK(count_text(svg, "2 of 4 heads") == 1);
  // f before both column splits, g after both row splits.
  CHECK(count_text(svg, "f") == 2);
  CHECK(count_text(svg, "g") == 2);
  CHECK(count_text(svg, "rows") == 2);
  CHECK(count_text(svg, "columns") == 1);
  CHECK(count_text(svg, "columns of q, of k, of v") == 1);
}

TEST_CASE("one rank has every weight whole") {
  const std::string svg = block_split(kModel, 0, 1);
  CHECK(parts_of(svg, "parameters") == parts_of(svg, "idle"));
}

}  // namespace
}  // namespace ladder
