// A lesson is two pages: README.md, the story, which a person finishes in a quarter of an hour, and
// reference.md, for looking things up. The front page is short.
#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

constexpr size_t kMostWords = 1500, kMostWordsOfFrontPage = 800, kMostNumbers = 4;
constexpr size_t kLeastQuestions = 4;

// A page's paragraphs as a reader reads them: without blocks of code, tables and folds.
struct Story {
  std::vector<std::string> paragraphs;  // headings are some
  size_t num_answers = 0;               // folds that are called Answer, before the exercises
};

Story story_of(const std::string& text) {
  static const std::regex kItem("^(- |[0-9]+\\. )");
  Story story;
  std::string paragraph;
  bool in_block = false, in_fold = false, in_exercises = false;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) story.paragraphs.push_back(paragraph);
    paragraph.clear();
  };
  for (const std::string& line : lines_of(text)) {
    const std::string own = line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    const bool is_item = std::regex_search(own, kItem);
    if (own.empty() || own.starts_with("#") || own.starts_with("|") || is_item) end_paragraph();
    if (own == "## Exercises") in_exercises = true;
    if (own.starts_with("```")) in_block = !in_block;
    if (own.starts_with("<details>")) in_fold = true;
    if (own.starts_with("<details>") && own.find("Answer") != own.npos && !in_exercises) {
      ++story.num_answers;
    }
    const bool is_read = !in_block && !in_fold && !own.starts_with("```") && !own.starts_with("|");
    if (is_read) paragraph += (paragraph.empty() ? "" : " ") + own;
    if (own.find("</details>") != own.npos) in_fold = false;
  }
  end_paragraph();
  return story;
}

// A link's address is not read.
std::string without_addresses(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(\]\([^)]*\))"), "]");
}

size_t num_words(const std::string& text) {
  std::istringstream in(without_addresses(text));
  return static_cast<size_t>(std::distance(std::istream_iterator<std::string>(in), {}));
}

// "4.9", "1,024" and "2^20" are one number each. Code, and names such as "fp32" and "[02]", are
// none.
size_t num_numbers(const std::string& text) {
  static const std::regex kCode("`[^`]*`"),
      kName(R"(\[[^\]]*\]|[Ll]essons? [0-9]+( (to|and) [0-9]+)?)"),
      kNumber(R"((^|[\s(*"])-?[0-9][0-9.,^/]*)");
  const std::string prose =
      std::regex_replace(std::regex_replace(without_addresses(text), kCode, ""), kName, "");
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(prose.begin(), prose.end(), kNumber), {}));
}

std::vector<std::string> wrong_lengths(const SourceFile& page, size_t most_words) {
  std::vector<std::string> findings;
  size_t words = 0;
  for (const std::string& paragraph : story_of(page.text).paragraphs) {
    words += num_words(paragraph);
    const size_t numbers = num_numbers(paragraph);
    if (numbers <= kMostNumbers) continue;
    findings.push_back(concat(page.path, ": ", numbers, " numbers: ", paragraph.substr(0, 70)));
  }
  if (words > most_words) {
    findings.push_back(concat(page.path, ": ", words, " words, may have ", most_words));
  }
  return findings;
}

// Sections, but for the exercises, that say nothing in bold.
std::vector<std::string> pale_sections(const SourceFile& page) {
  std::vector<std::string> findings;
  std::string section;
  bool is_bold = true;
  const auto end_section = [&] {
    if (!is_bold) findings.push_back(concat(page.path, ": nothing is bold in ", section));
  };
  for (const std::string& paragraph : story_of(page.text).paragraphs) {
    if (paragraph.starts_with("## ")) {
      end_section();
      section = paragraph;
      is_bold = section == "## Exercises";
    }
    is_bold = is_bold || paragraph.find("**") != paragraph.npos;
  }
  end_section();
  return findings;
}

std::vector<std::string> wrong_story(const SourceFile& page) {
  std::vector<std::string> findings = wrong_lengths(page, kMostWords);
  std::ranges::move(pale_sections(page), std::back_inserter(findings));
  const size_t questions = story_of(page.text).num_answers;
  if (questions < kLeastQuestions) {
    findings.push_back(concat(page.path, ": ", questions, " questions with an answer before the ",
                              "exercises, expected ", kLeastQuestions));
  }
  return findings;
}

TEST_CASE("a lesson is a story that a person finishes, and a page for looking things up") {
  const std::vector<SourceFile> tree = read_tree(source_root());
  const Texts texts = texts_of(tree);
  std::vector<std::string> findings =
      wrong_lengths({"README.md", texts.at("README.md")}, kMostWordsOfFrontPage);
  size_t num_stories = 0;
  for (const SourceFile& page : tree) {
    if (!is_under(page.path, "lessons/") || file_name(page.path) != "README.md") continue;
    ++num_stories;
    std::ranges::move(wrong_story(page), std::back_inserter(findings));
    const std::string folder = page.path.substr(0, page.path.rfind('/') + 1);
    if (!texts.contains(folder + "reference.md")) {
      findings.push_back(folder + "reference.md is missing");
    }
  }
  CHECK(num_stories >= 19);
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("what no GPU has run is said in notes/gpus.md alone") {
  static const std::regex kSaid("[Nn]o GPU has (ever )?run|[Nn]o GPU (ever )?ran");
  for (const SourceFile& page : read_tree(source_root())) {
    if (!page.path.ends_with(".md") || page.path == "notes/gpus.md") continue;
    INFO(page.path);
    CHECK_FALSE(std::regex_search(page.text, kSaid));
  }
}

TEST_CASE("words and numbers are counted as a reader meets them") {
  CHECK(num_words("two [words](../of/a/link.md)") == 2);
  CHECK(num_numbers("1,024 tokens, 4.9 GiB (2 of 3) in fp32 and lesson 05, `x = 7`, N-1") == 4);
  const auto wrong = [](const std::string& text, size_t most) {
    return wrong_lengths({"a", text}, most).size();
  };
  CHECK(wrong("# One\n\ntwo three\n", 4) == 0);
  CHECK(wrong("# One\n\ntwo three\n", 3) == 1);
  CHECK(wrong("one\n```\nint x;\n```\n| two | 2 "
              "|\n<details><summary>Answer</summary>\n\nx\n</details>\n",
              1) == 0);
  CHECK(wrong("1 2 3\n\n- 4 5\n", 99) == 0);
  CHECK(wrong("1 2 3\n4 5\n", 99) == 1);
  CHECK(pale_sections({"a", "# A\n## B\n\nx\n\n## C\n\n**y.**\n## Exercises\n\nz\n"}) ==
        std::vector<std::string>{"a: nothing is bold in ## B"});
  const std::string fold = "<details><summary>Answer</summary>\n\nx\n</details>\n";
  CHECK(story_of(fold + fold + "\n## Exercises\n" + fold).num_answers == 2);
}

}  // namespace
}  // namespace ladder
