#include "tools/course/pictures/course_map.h"

#include "tests/catch.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;

TEST_CASE("a map has an arrow from every parent, and no two lessons in one place") {
  const std::string map = course_map(
      {{"01_a", {}}, {"02_b", {"01_a"}}, {"03_c", {"01_a"}}, {"04_d", {"02_b", "03_c"}}});
  size_t arrows = 0;
  for (size_t at = map.find("<polygon"); at != std::string::npos;
       at = map.find("<polygon", at + 1)) {
    ++arrows;
  }
  CHECK(arrows == 4);
  for (const std::string title : {"01 a", "02 b", "03 c", "04 d"}) {
    CHECK(count_text(map, title) == 1);
  }
  // 01 | 02 04
  //    | 03
  CHECK(testing::rects_of(map, "plain") == std::vector<std::string>{"16 16 150 34", "212 16 150 34",
                                                                    "212 72 150 34",
                                                                    "408 16 150 34"});
}

}  // namespace
}  // namespace ladder
