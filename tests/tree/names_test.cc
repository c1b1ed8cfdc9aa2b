// Each type of the project has a name of its own. Two headers with different types of one name may
// be linked into one program, which then has one std::vector of both, and nobody says so (the "one
// definition rule" of C++). And the names of kernels in files of programs are kernels' names.
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// "struct Span {" at the begin of a line, in whatever namespace is around it.
std::vector<std::string> types_of(const std::string& text) {
  static const std::regex type(
      R"(^(?:struct|class|enum class|union) (\w+)[^;{:]*(?::[^:][^;{]*)?\{)");
  std::string space;
  std::vector<std::string> types;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("namespace ")) space = line.substr(10, line.find(" {") - 10);
    std::smatch match;
    if (std::regex_search(line, match, type)) types.push_back(space + "::" + match[1].str());
  }
  return types;
}

std::vector<std::string> doubles(const std::vector<SourceFile>& files) {
  std::map<std::string, std::string> first;
  std::vector<std::string> findings;
  for (const auto& [path, text] : files) {
    if (!path.ends_with(".h") || is_under(path, "tests/")) continue;
    for (const std::string& type : types_of(text)) {
      const auto [found, is_new] = first.try_emplace(type, path);
      if (!is_new && found->second != path) {
        findings.push_back(concat(type, ": in ", found->second, " and in ", path));
      }
    }
  }
  return findings;
}

TEST_CASE("no two headers have a type of the same name") {
  const std::vector<std::string> findings = doubles(read_tree(source_root()));
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("two types of one name are found, in one namespace only") {
  const std::string one = "namespace ladder {\nstruct Span {\n";
  CHECK(doubles({{"common/a.h", one}, {"common/b.h", one}}).size() == 1);
  CHECK(
      doubles({{"common/a.h", one}, {"common/b.h", "namespace other {\nclass Span {\n"}}).empty());
  CHECK(
      doubles({{"common/a.h", one}, {"common/b.h", "namespace ladder {\nstruct Span;\n"}}).empty());
  const std::string nested = "namespace ladder {\nstruct Timeline::Span {\n";
  CHECK(doubles({{"common/a.h", one}, {"common/b.h", nested}}).empty());
}

// The kernels that a program's file runs others instead of, by the lines of "instead_of".
std::vector<std::string> replaced_kernels(const std::string& text) {
  static const std::regex kKernel("\n    \"(\\w+)\": \\{\"(launches|more_bytes)");
  std::vector<std::string> kernels;
  for (std::sregex_iterator i(text.begin(), text.end(), kKernel), end; i != end; ++i) {
    kernels.push_back((*i)[1]);
  }
  return kernels;
}

TEST_CASE("what programs run others instead of are kernels") {
  const std::vector<SourceFile> files = read_tree(source_root());
  std::string headers;
  for (const SourceFile& file : files) {
    if (is_under(file.path, "kernels/") && file.path.ends_with(".h")) headers += file.text;
  }
  size_t num_kernels = 0;
  for (const SourceFile& file : files) {
    if (!is_under(file.path, "common/cluster/programs/")) continue;
    for (const std::string& kernel : replaced_kernels(file.text)) {
      ++num_kernels;
      CAPTURE(file.path, kernel);
      CHECK(headers.find(concat("(\"", kernel, "\", ")) != std::string::npos);
    }
  }
  CHECK(num_kernels > 10);
}

}  // namespace
}  // namespace ladder
