// Programs with flags: each knows --version, and is linked with the revision that it prints.
#include <algorithm>
#include <array>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// What adds --version to the flags of a program.
constexpr std::array kVersions = {"add_version_flag(", "parse_command_line(", "run_small_program("};
// What links a program of a BUILD file with the revision.
constexpr std::array kRevisions = {"//common/io:revision\"", "//tools/programs:small_program\"",
                                   "\nlesson("};

bool contains_any(const std::string& text, const auto& words) {
  return std::ranges::any_of(
      words, [&](const char* word) { return text.find(word) != std::string::npos; });
}

std::vector<std::string> wrong_programs(const Texts& texts) {
  static const std::regex kFlags(R"(\bCLI::App(>| \w+)\()");
  std::vector<std::string> findings;
  for (const auto& [path, text] : texts) {
    if (!path.ends_with(".cc") || is_under(path, "tests/")) continue;
    if (!std::regex_search(text, kFlags)) continue;
    if (!contains_any(text, kVersions)) findings.push_back(path + ": its flags lack --version");
    const auto build = texts.find(path.substr(0, path.rfind('/')) + "/BUILD");
    const bool is_linked = build != texts.end() && contains_any(build->second, kRevisions);
    if (text.find("int main(") != std::string::npos && !is_linked) {
      findings.push_back(path + ": is linked without the revision");
    }
  }
  return findings;
}

TEST_CASE("every program with flags has --version and is linked with the revision") {
  const std::vector<std::string> findings = wrong_programs(texts_of(read_tree(source_root())));
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("a program without --version is found, and one without the revision") {
  using Findings = std::vector<std::string>;
  const std::string good = "CLI::App app(\"\");\nint main() { run_small_program(app); }\n";
  const std::string build = "deps = [\"//tools/programs:small_program\"]";
  CHECK(wrong_programs({{"tools/a/main.cc", good}, {"tools/a/BUILD", build}}).empty());
  CHECK(wrong_programs({{"tools/a/main.cc", good}, {"tools/a/BUILD", "deps = []"}}) ==
        Findings{"tools/a/main.cc: is linked without the revision"});
  for (const std::string flags : {"CLI::App app(\"\");", "std::make_unique<CLI::App>(\"\");"}) {
    CHECK(wrong_programs({{"common/a.cc", flags + "\napp.parse(argc, argv);"}}) ==
          Findings{"common/a.cc: its flags lack --version"});
  }
  CHECK(wrong_programs({{"common/a.cc", "void add_to(CLI::App& app);"}}).empty());
}

}  // namespace
}  // namespace ladder
