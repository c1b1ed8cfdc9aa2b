#include "tools/course/pictures/gather_buffers.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

// The names of units that are written at the height of a row, from left to right.
std::vector<std::string> names_in_row(const std::string& svg, const std::string& row) {
  const std::regex label("<text x=\"10\" y=\"([0-9.]+)\"[^>]*>" + row + "<");
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, label));
  const double y = std::stod(found[1]);
  std::vector<std::pair<double, std::string>> texts;
  const std::regex text(
      R"re(<text class="on_parameters" x="([0-9.]+)" y="([0-9.]+)"[^>]*>([^<]*)<)re");
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
    if (std::abs(std::stod((*at)[2]) - y) < 3) texts.emplace_back(std::stod((*at)[1]), (*at)[3]);
  }
  std::ranges::sort(texts);
  std::vector<std::string> names;
  for (const auto& [x, name] : texts) names.push_back(name);
  return names;
}

TEST_CASE("blocks take turns in two buffers, in forward and back in backward") {
  const std::string svg = draw_gather_buffers();
  using Names = std::vector<std::string>;
  // The embeddings and, in backward, the final norm stay too short for a name.
  CHECK(names_in_row(svg, "buffer 1") == Names{"h.1", "h.3", "h.3", "h.1"});
  CHECK(names_in_row(svg, "buffer 2") == Names{"h.0", "h.2", "ln_f", "h.2", "h.0"});
  CHECK(testing::picture_findings(svg) == Names());
}

}  // namespace
}  // namespace ladder
