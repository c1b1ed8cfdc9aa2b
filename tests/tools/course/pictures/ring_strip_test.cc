#include "tools/course/pictures/ring_strip.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("two ranks: two frames after the first, and who has how much of a sum") {
  const std::string svg = ring_strip(2);  // [1 2] and [3 4]
  CHECK(count_text(svg, "ring all_reduce on 2 ranks: 2 rounds") == 1);
  CHECK(count_text(svg, "at first") == 1);
  CHECK(count_text(svg, "round 2") == 1);
  CHECK(count_text(svg, "round 3") == 0);
  // Round 1: rank 0 has 1 + 3, rank 1 has 2 + 4. Round 2: both have both.
  CHECK(count_text(svg, "4") == 1 + 1 + 2);  // the number, then the sum
  CHECK(count_text(svg, "6") == 1 + 2);
  // Complete are two squares, then four; the last one is the legend's.
  CHECK(count_of(svg, "fill-opacity=\"1\"") == 2 + 4 + 1);
  CHECK(count_of(svg, "fill-opacity=\"0.5\"") == 4 + 2 + 1);
  CHECK(count_of(svg, "font-weight=\"bold\"") == 2 + 4 + 1);  // and the title
  // In each round both ranks receive.
  CHECK(count_of(svg, "<polygon") == 4);
}

TEST_CASE("arrows of the first round of four ranks stand above the numbers that have come") {
  const std::string svg = ring_strip(4);
  // Frame 1 begins at 60 + 132; rank r receives part (r + 2) % 4, 26 wide. Rows are 44 apart.
  for (const std::string arrow :
       {"x1=\"257\" y1=\"59\" x2=\"257\" y2=\"75\"", "x1=\"283\" y1=\"103\" x2=\"283\" y2=\"119\"",
        "x1=\"205\" y1=\"147\" x2=\"205\" y2=\"163\"",
        "x1=\"231\" y1=\"191\" x2=\"231\" y2=\"207\""}) {
    CHECK(count_of(svg, arrow) == 1);
  }
  CHECK(count_of(svg, "<polygon") == 6 * 4);
}

TEST_CASE("a ring of one rank has no rounds to show") { CHECK_THROWS_AS(ring_strip(1), Error); }

}  // namespace
}  // namespace ladder
