// Tables in Markdown are tables: a blank line within one tears it apart, and what follows is shown
// as a paragraph full of bars.
#include <algorithm>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// Every line that begins with a bar must belong to a table: neighbouring lines of which the second
// is |---|---| with as many cells as the first. Blocks of code, between lines of ```, are left out.
std::vector<std::string> torn_tables(const SourceFile& file) {
  static const std::regex kRule(R"(\|( *:?-+:? *\|)+ *)");
  const auto num_cells = [](const std::string& line) { return std::ranges::count(line, '|'); };
  const std::vector<std::string> lines = lines_of(file.text);
  std::vector<std::string> findings;
  bool in_code = false, in_table = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("```")) in_code = !in_code;
    const bool is_row = !in_code && lines[i].starts_with("|");
    const bool begins = is_row && !in_table;
    in_table = is_row;
    if (!begins) continue;
    const bool has_rule = i + 1 < lines.size() && std::regex_match(lines[i + 1], kRule) &&
                          num_cells(lines[i + 1]) == num_cells(lines[i]);
    if (!has_rule) {
      findings.push_back(concat(file.path, ":", i + 1,
                                ": a table without its line of |---|: ", lines[i].substr(0, 60)));
    }
  }
  return findings;
}

TEST_CASE("no table of a README or a note is torn apart") {
  size_t num_tables = 0;
  std::vector<std::string> findings;
  for (const SourceFile& file : read_tree(source_root())) {
    if (!file.path.ends_with(".md")) continue;
    num_tables += file.text.find("\n|---") != std::string::npos;
    std::ranges::move(torn_tables(file), std::back_inserter(findings));
  }
  REQUIRE(num_tables > 5);  // files that have one
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of tables tells whole ones from torn ones") {
  const auto found = [](const std::string& text) { return torn_tables({"a.md", text}).size(); };
  const std::string head = "| a | b |\n|---|:---:|\n", row = "| 1 | 2 |\n";
  CHECK(found("text\n\n" + head + row + row + "\ntext\n") == 0);
  CHECK(found(head + "\ntext\n\n" + head + row) == 0);
  CHECK(found("```\n" + row + "```\n") == 0);
  CHECK(found(head + row + "\n" + row) == 1);
  CHECK(found(head + "\n" + row + "\n" + row) == 2);
  CHECK(found("| a | b |\n|---|\n" + row) == 1);
  CHECK(found(row) == 1);
  CHECK(found("```\n" + row + "```\n" + row) == 1);
}

}  // namespace
}  // namespace ladder
