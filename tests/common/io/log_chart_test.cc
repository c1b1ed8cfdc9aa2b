#include "common/io/log_chart.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("a chart has a square for every point, and powers of ten at equal distances") {
  const std::string svg = log_chart(
      "costs", "bytes", "us",
      {{"ring", Colour::parameters, {{10, 1}, {100, 10}, {1000, 100}}, {{10, 1}, {1000, 100}}}});
  // Three points and the legend's square.
  CHECK(count_of(svg, "<rect class=\"parameters\"") == 4);
  // Both axes go over two powers of ten, on 620 x 400 pixels: the middle one is in the middle.
  for (const std::string place :
       {"x=\"66.5\" y=\"466.5\"", "x=\"376.5\" y=\"266.5\"", "x=\"686.5\" y=\"66.5\""}) {
    CAPTURE(svg, place);
    CHECK(count_of(svg, place) == 1);
  }
  CHECK(count_of(svg, "<polyline class=\"parameters edge\" points=\"70,470 690,70\"/>") == 1);
  for (const std::string text : {">costs<", ">bytes<", ">us<", ">ring<", ">1 k<"}) {
    CHECK(count_of(svg, text) >= 1);
  }
}

TEST_CASE("what has no logarithm is no chart") {
  CHECK_THROWS_AS(log_chart("", "", "", {}), Error);
  CHECK_THROWS_AS(log_chart("", "", "", {{"a", Colour::plain, {{1, 0}}, {}}}), Error);
}

}  // namespace
}  // namespace ladder
