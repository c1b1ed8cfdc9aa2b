// The READMEs of the lessons: their form, and that what they quote is what the code says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

const std::vector<std::string> kSections = {
    "The problem", "The idea",         "The picture", "The code",  "Run it",
    "The price",   "Which bits agree", "What breaks", "Exercises", "Read on"};

using Texts = std::map<std::string, std::string>;  // by path

std::vector<std::string> sections_of(const std::string& readme) {
  std::vector<std::string> sections;
  for (const std::string& line : lines_of(readme)) {
    if (line.starts_with("## ")) sections.push_back(line.substr(3));
  }
  return sections;
}

// Lines of C++ that do not follow each other in the file that is named above them.
std::vector<std::string> wrong_quotes(const SourceFile& readme, const Texts& files) {
  static const std::regex kFile(R"(`([a-z0-9_/]+\.(h|cc|cu|bzl))`)");
  std::vector<std::string> findings;
  std::string file, quote;
  bool in_quote = false;
  for (const std::string& line : lines_of(readme.text)) {
    std::smatch match;
    if (in_quote && line == "```") {
      in_quote = false;
      const auto found = files.find(file);
      if (found == files.end() || found->second.find("\n" + quote) == std::string::npos) {
        findings.push_back(concat(readme.path, ": not in ", file, ": ", quote));
      }
    } else if (in_quote) {
      quote += line + "\n";
    } else if (line == "```cpp") {
      in_quote = true;
      quote.clear();
    } else if (std::regex_search(line, match, kFile)) {
      file = match[1];
    }
  }
  return findings;
}

// Paths from the root in backticks that are no files.
std::vector<std::string> missing_files(const SourceFile& readme, const Texts& files) {
  static const std::regex kPath(
      R"(`((kernels|common|lessons|tests|tools|notes)/[A-Za-z0-9_/]+\.[a-z]+)`)");
  std::vector<std::string> findings;
  for (auto match = std::sregex_iterator(readme.text.begin(), readme.text.end(), kPath);
       match != std::sregex_iterator(); ++match) {
    const std::string path = (*match)[1];
    if (!files.contains(path)) findings.push_back(concat(readme.path, ": no file ", path));
  }
  return findings;
}

Texts texts_of(const std::vector<SourceFile>& tree) {
  Texts texts;
  for (const SourceFile& file : tree) texts[file.path] = file.text;
  return texts;
}

TEST_CASE("READMEs of lessons have one form, quote the code as it is and name files that exist") {
  const std::vector<SourceFile> tree = read_tree(source_root());
  const Texts texts = texts_of(tree);
  size_t num_readmes = 0;
  std::vector<std::string> findings;
  for (const SourceFile& file : tree) {
    if (!is_under(file.path, "lessons/") || file_name(file.path) != "README.md") continue;
    ++num_readmes;
    if (sections_of(file.text) != kSections) findings.push_back(file.path + ": other sections");
    std::ranges::move(wrong_quotes(file, texts), std::back_inserter(findings));
  }
  for (const SourceFile& file : tree) {
    if (file_name(file.path).ends_with(".md")) {
      std::ranges::move(missing_files(file, texts), std::back_inserter(findings));
    }
  }
  CHECK(num_readmes >= 10);
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("a quote that the code has changed is found, and so is a file that is gone") {
  const Texts files = {{"lessons/01_x/a.cc", "int x;\n  int y;\nint z;\n"}};
  const auto readme = [](const std::string& quote) {
    return SourceFile{"lessons/01_x/README.md", "`lessons/01_x/a.cc`\n```cpp\n" + quote + "```\n"};
  };
  CHECK(wrong_quotes(readme("  int y;\nint z;\n"), files).empty());
  CHECK(wrong_quotes(readme("  int y;\nint w;\n"), files).size() == 1);
  CHECK(wrong_quotes(readme("int y;\n"), files).size() == 1);  // not whole lines
  CHECK(missing_files({"README.md", "see `lessons/01_x/a.cc`"}, files).empty());
  CHECK(missing_files({"README.md", "see `lessons/01_x/b.cc`"}, files).size() == 1);
}

}  // namespace
}  // namespace ladder
