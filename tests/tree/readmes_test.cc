// The READMEs of the lessons: their form. Those of the lessons and kernels: that what they quote is
// what the code says.
#include <algorithm>
#include <map>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

const std::vector<std::string> kSections = {"The problem", "The idea",  "The picture", "The code",
                                            "Run it",      "The price", "What breaks", "Exercises"};

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

// The line about the puzzles that lie beside a README, as in "**Puzzle, five minutes:**
// `tools/puzzle 09.1`." with an empty line after it; empty if there is none.
std::string puzzle_line(const std::string& readme, const Texts& files) {
  const std::string folder = readme.substr(0, readme.rfind('/') + 1);
  const std::string lesson = folder.substr(std::string("lessons/").size(), 2);
  std::vector<std::string> numbers;
  for (auto file = files.lower_bound(folder + "puzzles/");
       file != files.end() && is_under(file->first, folder + "puzzles/"); ++file) {
    const std::string_view name = file_name(file->first);
    if (!name.ends_with(".cc")) continue;  // what the learner is told afterwards
    numbers.push_back(concat(lesson, ".", name.substr(0, name.find('.'))));
  }
  std::string line;
  for (const std::string& number : numbers) {
    line += line.empty() ? concat("`tools/puzzle ", number, "`") : concat(", `", number, "`");
  }
  if (numbers.empty()) return "";
  return concat("**Puzzle", numbers.size() == 1 ? ", five minutes:** " : "s, five minutes each:** ",
                line, ".\n\n");
}

// What is wrong with the text that tools/puzzle prints when a puzzle is right: six lines at most,
// and the first one names the file of the real code.
std::string wrong_ending(const std::string& puzzle, const Texts& files) {
  const auto text = files.find(puzzle.substr(0, puzzle.rfind('.')) + ".txt");
  if (text == files.end()) return puzzle + ": no text for afterwards";
  static const std::regex kFile("^The real code: ([a-z0-9_/]+\\.(h|cc))");
  std::smatch match;
  const bool is_named = std::regex_search(text->second, match, kFile) && files.contains(match[1]);
  if (!is_named) return text->first + ": no file of the real code";
  return lines_of(text->second).size() > 6 ? text->first + ": more than six lines" : "";
}

// What the exercises lack. Each is a numbered item; the puzzles and the graded one come first.
std::vector<std::string> wrong_exercises(const SourceFile& readme,
                                         const std::string& puzzles = "") {
  static const std::string kBegin = "\n## Exercises\n\n";
  static const std::regex kItem(R"(^[0-9]+\. )"), kFold("<details>(<summary>(.*)</summary>)?");
  std::vector<std::string> findings;
  const size_t begin = readme.text.find(kBegin);
  if (begin == std::string::npos) return {readme.path + ": no exercises"};
  const std::string rest = readme.text.substr(begin + kBegin.size());
  const std::vector<std::string> lines = lines_of(rest);
  const auto report = [&](const std::string& what) {
    findings.push_back(readme.path + ": " + what);
  };
  if (!rest.starts_with(puzzles)) report("it does not begin with " + puzzles);
  if (!rest.starts_with(puzzles + "**Graded exercise")) {
    report("the graded exercise does not come first");
  }
  size_t num_open = 0, num_answers = 0, num_items = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch fold;
    if (std::regex_search(lines[i], kItem) && ++num_items > num_answers + 1) {
      report("no answer before: " + lines[i]);
      num_answers = num_items - 1;
    }
    if (lines[i].find("</details>") != std::string::npos) --num_open;
    if (!std::regex_search(lines[i], fold, kFold)) continue;
    if (++num_open != 1) report("not closed before: " + lines[i]);
    if (fold[2] == "Answer") ++num_answers;
    // Else Markdown's `code` and *emphasis* stay as they are.
    if (i + 1 == lines.size() || !lines[i + 1].empty() || !fold.suffix().str().empty()) {
      report("no empty line after: " + lines[i]);
    }
  }
  if (num_open != 0) report("a fold is not closed");
  if (num_answers != num_items) report("the last exercise has no answer");
  return findings;
}

TEST_CASE(
    "READMEs of lessons have one form and answer their exercises, quote the code as it is and name "
    "files that exist") {
  const std::vector<SourceFile> tree = read_tree(source_root());
  const Texts texts = texts_of(tree);
  size_t num_readmes = 0;
  std::vector<std::string> findings;
  for (const SourceFile& file : tree) {
    if (!is_under(file.path, "lessons/") || file_name(file.path) != "README.md") continue;
    ++num_readmes;
    if (sections_of(file.text) != kSections) findings.push_back(file.path + ": other sections");
    std::ranges::move(wrong_quotes(file, texts), std::back_inserter(findings));
    const std::string puzzles = puzzle_line(file.path, texts);
    if (puzzles.empty()) findings.push_back(file.path + ": no puzzle");
    std::ranges::move(wrong_exercises(file, puzzles), std::back_inserter(findings));
  }
  for (const SourceFile& file : tree) {
    if (file.path.find("/puzzles/") != file.path.npos && file.path.starts_with("lessons/") &&
        file.path.ends_with(".cc")) {
      if (const std::string what = wrong_ending(file.path, texts); !what.empty())
        findings.push_back(what);
    }
    const bool is_reference = file_name(file.path) == "reference.md";
    if (is_reference || (is_under(file.path, "kernels/") && file_name(file.path) == "README.md")) {
      std::ranges::move(wrong_quotes(file, texts), std::back_inserter(findings));
    }
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

TEST_CASE("exercises without an answer are found, and folds that show no Markdown") {
  const auto wrong = [](const std::string& exercises) {
    return wrong_exercises({"a", "\n## Exercises\n\n" + exercises});
  };
  const std::string graded = "**Graded exercise: x.** y\n\n";
  const auto fold = [](const std::string& summary) {
    return "   <details><summary>" + summary + "</summary>\n\n   x\n   </details>\n";
  };
  const std::string hint = fold("Hint 1"), answer = fold("Answer");
  using Findings = std::vector<std::string>;
  CHECK(wrong(graded + "1. x\n" + hint + answer + "2. y\n" + answer).empty());
  CHECK(wrong("1. x\n" + answer) == Findings{"a: the graded exercise does not come first"});
  const Texts files = {{"lessons/09_x/puzzles/1.cc", ""},
                       {"lessons/10_y/puzzles/1.cc", ""},
                       {"lessons/10_y/puzzles/1.txt", ""},
                       {"lessons/10_y/puzzles/2.cc", ""}};
  CHECK(puzzle_line("lessons/09_x/README.md", files) ==
        "**Puzzle, five minutes:** `tools/puzzle 09.1`.\n\n");
  CHECK(puzzle_line("lessons/10_y/README.md", files) ==
        "**Puzzles, five minutes each:** `tools/puzzle 10.1`, `10.2`.\n\n");
  CHECK(puzzle_line("lessons/11_z/README.md", files) == "");
  const auto ending = [](const std::string& text) {
    return wrong_ending("a/puzzles/1.cc", {{"a/puzzles/1.txt", text}, {"b/c.h", ""}});
  };
  CHECK(ending("The real code: b/c.h, f.\nx\n") == "");
  CHECK(ending("The real code: b/d.h, f.\nx\n") == "a/puzzles/1.txt: no file of the real code");
  CHECK(ending("The real code: b/c.h.\n1\n2\n3\n4\n5\n6\n") ==
        "a/puzzles/1.txt: more than six lines");
  CHECK(wrong_ending("a/puzzles/1.cc", {}) == "a/puzzles/1.cc: no text for afterwards");
  CHECK(wrong(graded + "1. x\n" + hint + "2. y\n" + answer) ==
        Findings{"a: no answer before: 2. y"});
  CHECK(wrong(graded + "1. x\n" + answer + "2. y\n") ==
        Findings{"a: the last exercise has no answer"});
  CHECK(wrong(graded + "1. x\n<details><summary>Answer</summary>x\n\n</details>\n") ==
        Findings{"a: no empty line after: <details><summary>Answer</summary>x"});
  CHECK(wrong(graded + "1. x\n<details><summary>Answer</summary>\nx\n</details>\n").size() == 1);
  CHECK(wrong(graded + "1. x\n<details><summary>Answer</summary>\n\nx\n") ==
        Findings{"a: a fold is not closed"});
  CHECK(wrong_exercises({"a", "## Exercises"}) == Findings{"a: no exercises"});
}

}  // namespace
}  // namespace ladder
