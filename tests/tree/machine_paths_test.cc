// No file names a folder of the machine that it was written on.
#include <algorithm>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// An absolute path of a home or of a work folder: not inside a word, an address or a longer path.
std::vector<std::string> machine_paths(const SourceFile& file) {
  static const std::regex kPath(R"((^|[^A-Za-z0-9_.~/$}*-])/(home|root|work|Users)/)");
  std::vector<std::string> findings;
  size_t number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    if (!std::regex_search(line, kPath)) continue;
    findings.push_back(concat(file.path, ":", number, ": ", line));
  }
  return findings;
}

TEST_CASE("no file names a folder of one machine") {
  const std::vector<SourceFile> files = read_tree(source_root());
  REQUIRE(files.size() > 20);
  std::vector<std::string> findings;
  for (const SourceFile& file : files) {
    std::ranges::move(machine_paths(file), std::back_inserter(findings));
  }
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of paths tells a machine's folder from the like of it") {
  // Written in two parts, so that this file itself is free of them.
  const std::string folder = GENERATE("home", "root", "work", "Users");
  const auto found = [&](const std::string& before) {
    return machine_paths({"notes/a.md", "first\n" + before + "/" + folder + "/me/data\n"});
  };
  CHECK(found("") == std::vector{concat("notes/a.md:2: /", folder, "/me/data")});
  CHECK(found("cp ").size() == 1);
  CHECK(found("\"").size() == 1);
  CHECK(found("--data=").size() == 1);
  CHECK(found("(").size() == 1);
  CHECK(found("https://example.org").empty());
  CHECK(found("$prefix").empty());
  CHECK(found("..").empty());
  CHECK(machine_paths({"a", "/" + folder + "s/me"}).empty());
}

}  // namespace
}  // namespace ladder
