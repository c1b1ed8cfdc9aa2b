// One model in every lesson: pages and picture show what the lessons' programs say now.
#include "tools/course/spine/spine.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

std::vector<std::string> stale_files(const std::string& root, const std::vector<SpineLine>& lines) {
  std::vector<std::string> findings;
  for (const SpineFile& file : spine_files(root, lines)) {
    if (read_text(root + "/" + file.path) != file.text) findings.push_back(file.path);
  }
  return findings;
}

TEST_CASE("every lesson's page ends with the line that is computed now") {
  INFO("written anew by: tools/spine --write");
  const auto stale = stale_files(source_root(), spine_lines());
  INFO(report(stale));
  CHECK(stale.empty());
  std::set<std::string> pages, lines;
  for (const SourceFile& file : read_tree(source_root())) {
    if (is_under(file.path, "lessons/") && file_name(file.path) == "README.md") {
      pages.insert(file.path);
    }
  }
  for (const SpineLine& line : spine_lines()) {
    lines.insert(concat("lessons/", line.lesson, "/README.md"));
  }
  CHECK(pages == lines);  // else a lesson has no row in tools/course/spine/spine.cc
}

TEST_CASE("the model gets from not fitting to the fastest layout, which the planner finds") {
  const auto lesson = [](const std::string& name) {
    return *std::ranges::find(spine_lines(), name, &SpineLine::lesson);
  };
  CHECK_FALSE(lesson("01_single_gpu").fits);
  CHECK_FALSE(lesson("03_zero1").fits);
  CHECK(lesson("04_zero2").fits);
  CHECK_THAT(lesson("19_planning").command,
             StartsWith("05_zero3 --dtype bf16 ") && ContainsSubstring("--recompute"));
  const double best = lesson("19_planning").tokens_a_day;
  // Lesson 18 trains little of the model, so it has less to compute.
  for (const SpineLine& line : spine_lines()) {
    CHECK((line.tokens_a_day <= best || line.lesson == "18_fine_tuning"));
  }
  CHECK(best > 3 * lesson("04_zero2").tokens_a_day);
}

TEST_CASE("a line that is stale is found, and a new one replaces nothing else") {
  const SpineLine sum = {.lesson = "00_a", .why = "sum", .sent = 1e9, .seconds = 1};
  const SpineLine large = {
      .lesson = "01_b", .why = "large", .command = "01_b", .memory = 1 << 30, .fits = false};
  SpineLine small = {.lesson = "02_c",
                     .why = "small",
                     .command = "02_c --flag",
                     .memory = 3 << 29,
                     .sent = 2.5e9,
                     .seconds = 1.2345,
                     .tokens_a_day = 1.5e9};
  const Scratch tree;
  const std::string root = tree.path(), page = "lessons/02_c/README.md";
  for (const char* folder : {"notes/pictures", "lessons/00_a", "lessons/01_b", "lessons/02_c"}) {
    std::filesystem::create_directories(root + "/" + folder);
    tree.write(concat(folder, "/README.md"), "# Page\n");
  }
  tree.write("notes/lessons.md", "# All\n\n| lesson | fits |\n|---|\n| old |\n\nafter\n");
  const auto write = [&] {
    for (const auto& [path, text] : spine_files(root, {sum, large, small})) tree.write(path, text);
  };
  write();
  const std::string all = read_text(root + "/notes/lessons.md");
  CHECK_THAT(all, StartsWith("# All\n\n| lesson | fits | ") && !ContainsSubstring("old"));
  CHECK_THAT(all, ContainsSubstring("\n| 00 | - | - | 1.0 | 1,000 | - | sum | - |\n"
                                    "| 01 | **no** | 1.0 | - | - | - | large | `01_b` |\n"));
  CHECK_THAT(all, EndsWith(" | `02_c --flag` |\n\nafter\n"));
  CHECK_THAT(
      read_text(root + "/" + page),
      StartsWith("# Page\n\n| [One model in every lesson](") &&
          EndsWith("|---|\n| lesson 02 | yes | 1.5 | 2.5 | 1,235 | 1.50 billion | small |\n"));
  CHECK(stale_files(root, {sum, large, small}).empty());
  tree.write(page, read_text(root + "/" + page) + "\nafter\n");
  small.seconds = 2;
  CHECK(stale_files(root, {sum, large, small}) ==
        std::vector<std::string>{"notes/lessons.md", page});
  write();
  CHECK_THAT(read_text(root + "/" + page),
             EndsWith(" | 2,000 | 1.50 billion | small |\n\nafter\n"));
}

}  // namespace
}  // namespace ladder
