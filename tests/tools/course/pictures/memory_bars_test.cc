#include "tools/course/pictures/memory_bars.h"

#include "tests/catch.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

// How many bars have so many bytes of the category.
size_t count_tips(const std::string& svg, const std::string& category, size_t bytes) {
  const std::string tip = "<title>" + category + ": " + human_bytes(bytes) + "</title>";
  size_t found = 0;
  for (size_t at = svg.find(tip); at != std::string::npos; at = svg.find(tip, at + 1)) ++found;
  return found;
}

TEST_CASE("bars have one scale, and their categories lie side by side") {
  MemoryUse large, small;
  large[Category::parameters] = 3 << 20;
  large[Category::optimizer] = 1 << 20;
  small[Category::optimizer] = 1 << 20;
  const std::string svg = draw_memory_bars("title", {{"large", large}, {"small", small}});
  // The largest bar is 388 wide. The last square of each colour is the legend's.
  CHECK(rects_of(svg, "parameters").front() == "240 44 291 24");
  CHECK(rects_of(svg, "parameters").size() == 2);
  CHECK(rects_of(svg, "optimizer").size() == 3);
  CHECK(rects_of(svg, "optimizer")[0] == "531 44 97 24");
  CHECK(rects_of(svg, "optimizer")[1] == "240 78 97 24");
  CHECK(rects_of(svg, "gradients").size() == 1);  // nobody has any
  for (const std::string text : {"title", "large", "small", "4 MiB", "1 MiB"}) {
    CHECK(count_text(svg, text) == 1);
  }
}

TEST_CASE("GPT-2's bars are those of the lessons' formulas") {
  const std::string svg = memory_bars();
  // 124,439,808 parameters; wte, wpe, each block and ln_f are multiples of 64, so nothing is
  // padded.
  constexpr size_t kParameters = 124'439'808, kAll = 4 * kParameters;  // bytes
  CHECK(count_tips(svg, "parameters", kAll) == 5);                     // 01 to 04; 06 on the device
  CHECK(count_tips(svg, "parameters", kAll / 4) == 2);                 // 05; 06 on the host
  CHECK(count_tips(svg, "gradients", kAll) == 3);                      // 01 to 03
  CHECK(count_tips(svg, "gradients", kAll / 4) == 4);  // 04, 05; 06 on the host, twice
  CHECK(count_tips(svg, "optimizer", 2 * kAll) == 2);  // 01, 02
}

TEST_CASE("split by tokens, twelve ranks hold a twelfth of the activations") {
  const std::string svg = sequence_bars();
  // R = 16 x 1,024 rows, C = 768, NH = 12, L = 12: the formulas of lessons 01, 07 and 13.
  const size_t r = 16 * 1024, c = 768, nh = 12, l = 12;
  const auto count = [&](size_t elements) { return count_tips(svg, "activations", 4 * elements); };
  const size_t all = r * (l * (16 * c + nh + 4) + 2 * c + 2);
  CHECK(count(all) == 1);
  CHECK(count(all / 4) == 1);
  // 12 does not divide R. A rank has room for n rows of what belongs to the residual stream.
  const size_t n = (r + 11) / 12, columns = l * r * (c + nh / 12);
  CHECK(count(columns + n * (l * (4 * c + 4) + 2 * c + 2)) == 1);
  CHECK(count(r * (l * (5 * c + nh / 12 + 4) + 2 * c + 2)) == 1);             // lesson 07
  CHECK(count(columns + n * (l * ((2 + 2 * 12) * c + 4) + 2 * c + 2)) == 1);  // kept
}

}  // namespace
}  // namespace ladder
