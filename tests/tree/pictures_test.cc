// The pictures in notes/ are those that tools/pictures draws of this tree.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "tests/tree/tree.h"
#include "tools/pictures/course_map.h"

namespace ladder {
namespace {

TEST_CASE("the map of the course is that of the lessons") {
  const std::string root = source_root();
  std::ifstream file(root + "/notes/pictures/course_map.svg");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  INFO("drawn anew by: bazel run //tools/pictures");
  CHECK((text == course_map(read_lessons(root))));
}

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
    CHECK(map.find(title) != std::string::npos);
  }
}

}  // namespace
}  // namespace ladder
