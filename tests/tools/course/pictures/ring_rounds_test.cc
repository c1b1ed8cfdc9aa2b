#include "tools/course/pictures/ring_rounds.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

TEST_CASE("two ranks: contiguous slices leave rank 0 idle in round 1, a zigzag nobody") {
  const std::string svg = draw_ring_rounds(2);
  // 64 tokens a rank: 2080 pairs of its own, then 4096, or half of that. 640 pixels are 6176 pairs.
  CHECK(rects_of(svg, "forward").size() == 3 + 4 + 1);  // and the legend
  CHECK(rects_of(svg, "idle").size() == 1 + 1);
  CHECK(count_text(svg, "k0") == 2 + 2);  // rank 0's keys: in round 0 there, in round 1 on rank 1
  CHECK(count_text(svg, "k1") == 1 + 2);
  CHECK(count_text(svg, "round 1") == 2);
  CHECK(count_text(svg, "round 2") == 0);
}

TEST_CASE("four ranks: a triangle of waiting") {
  const std::string svg = draw_ring_rounds(4);
  CHECK(rects_of(svg, "idle").size() == 1 + 2 + 3 + 1);  // and the legend
  CHECK(rects_of(svg, "forward").size() == 4 + 3 + 2 + 1 + 16 + 1);
}

TEST_CASE("a ring of one rank has no rounds to show") {
  CHECK_THROWS_AS(draw_ring_rounds(1), Error);
}

}  // namespace
}  // namespace ladder
