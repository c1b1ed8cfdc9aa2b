#include "tools/course/pictures/score_square.h"

#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;

// The texts that follow on the first one of these, which is the left square's.
std::vector<std::string> texts_after(const std::string& svg, const std::string& text,
                                     size_t count) {
  const std::regex element(">([^<]*)</text>");
  std::vector<std::string> found;
  const size_t begin = svg.find(">" + text + "</text>") + 1;
  for (std::sregex_iterator at(svg.begin() + static_cast<std::ptrdiff_t>(begin), svg.end(),
                               element);
       found.size() < count; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

TEST_CASE("four ranks: a zigzag has two cells in every round on every rank") {
  const std::string svg = draw_score_squares(4);
  CHECK(count_text(svg, "all rounds last 2 + 4 + 4 + 4 = 14 cells") == 1);
  CHECK(count_text(svg, "all rounds last 2 + 2 + 2 + 2 = 8 cells") == 1);
  // Keys go to the next rank: in round 1 each has those of the rank before, in round 3 of the next.
  using Texts = std::vector<std::string>;
  CHECK(texts_after(svg, "round 1", 5) == Texts{"0", "4", "4", "4", "4"});
  CHECK(texts_after(svg, "round 3", 5) == Texts{"0", "0", "0", "4", "4"});
  CHECK(testing::picture_findings(svg).empty());
}

TEST_CASE("two ranks: whole cells and halves, each with the number of its round") {
  const std::string svg = draw_score_squares(2);
  // 4 x 4 slices: 6 whole cells and 4 halves in each square, and two squares of the legend in each.
  CHECK(testing::rects_of(svg, "forward").size() == 2 * (6 + 2));
  CHECK(testing::rects_of(svg, "idle edge").size() == 2 * 4);
  // Contiguous: 3 whole cells and a half of rank 0's own ... in round 1 rank 1 has 4 cells, rank 0
  // none. In a zigzag each has two.
  CHECK(count_text(svg, "all rounds last 2 + 4 = 6 cells") == 1);
  CHECK(count_text(svg, "all rounds last 2 + 2 = 4 cells") == 1);
}

TEST_CASE("one rank alone has no rounds to show") { CHECK_THROWS_AS(draw_score_squares(1), Error); }

}  // namespace
}  // namespace ladder
