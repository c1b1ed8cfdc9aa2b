#include "tools/course/pictures/overlap.h"

#include <array>
#include <cmath>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::rects_of;

// "x y width height" as numbers.
std::array<double, 4> numbers_of(const std::string& rect) {
  std::istringstream text(rect);
  std::array<double, 4> numbers{};
  for (double& number : numbers) text >> number;
  return numbers;
}

double milliseconds(const std::string& svg, const std::string& before, const std::string& after) {
  const std::regex number(before + "([0-9.]+) ms" + after);
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, number));
  return std::stod(found[1]);
}

TEST_CASE("with overlap the step is shorter, and the picture says by how much") {
  const std::string svg = draw_overlap();
  const double naive = milliseconds(svg, "\\(--naive\\): ", "<");
  const double overlapped = milliseconds(svg, "goes on: ", "<");
  const double saved = milliseconds(svg, ">", "<");
  CHECK(std::abs(naive - overlapped - saved) < 0.11);  // each is rounded to a tenth
  CHECK(saved > 0.1 * naive);
  // The mark ends where the axis does, and has the scale of the bars.
  const auto [x, y, width, height] = numbers_of(rects_of(svg, "emphasis").front());
  CHECK(x + width == Approx(706).margin(0.1));
  CHECK(width / 600 == Approx(saved / naive).margin(0.01));
}

TEST_CASE("sums begin before backward ends, all but those of the first block and the embeddings") {
  const std::string svg = draw_overlap();
  std::vector<double> begins;  // of the second row's sums
  double last_backward = 0;
  const double second = numbers_of(rects_of(svg, "emphasis").front())[1];
  for (const std::string& rect : rects_of(svg, "communication")) {
    if (numbers_of(rect)[1] > second && numbers_of(rect)[2] != 12)
      begins.push_back(numbers_of(rect)[0]);
  }
  for (const std::string& rect : rects_of(svg, "backward")) {
    const auto [x, y, width, height] = numbers_of(rect);
    if (y >= second && width != 12) last_backward = std::max(last_backward, x + width);
  }
  REQUIRE(begins.size() == 6);  // four blocks and two embeddings
  CHECK(begins[2] < last_backward - 50);
  CHECK(begins[3] > last_backward - 2);  // after h.0; the embeddings take no pixel
  CHECK(testing::picture_findings(svg) == std::vector<std::string>());
}

}  // namespace
}  // namespace ladder
