// One word means one thing: names in the code have no word that notes/conventions.md has replaced.
#include <algorithm>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// A row of the table: words, and where they may stand after all. An exception with a "/" is a
// folder or a file, any other one a part of a name.
struct Rule {
  std::vector<std::string> words, exceptions;
};

std::vector<Rule> rules_in(const std::string& conventions) {
  static const std::regex kRow(R"(\| ([a-z, ]+) \| [^|]* \|([^|]*)\|)"), kWord("[a-z]+"),
      kException("`([^`]+)`");
  std::vector<Rule> rules;
  bool in_table = false;
  for (const std::string& line : lines_of(conventions)) {
    std::smatch row;
    if (line.starts_with("| not | but |")) {
      in_table = true;
    } else if (in_table && std::regex_match(line, row, kRow)) {
      Rule& rule = rules.emplace_back();
      const std::string words = row[1], exceptions = row[2];
      for (std::sregex_iterator i(words.begin(), words.end(), kWord), end; i != end; ++i) {
        rule.words.push_back(i->str());
      }
      for (std::sregex_iterator i(exceptions.begin(), exceptions.end(), kException), end; i != end;
           ++i) {
        rule.exceptions.push_back((*i)[1]);
      }
    } else if (!line.starts_with("|---")) {
      in_table = false;
    }
  }
  return rules;
}

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Returns the words of a name in lower case: "model", "chunk" and "at" of ModelChunk::at_.
std::set<std::string> words_of(const std::string& name) {
  static const std::regex kWord("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+");
  std::set<std::string> words;
  for (std::sregex_iterator i(name.begin(), name.end(), kWord), end; i != end; ++i) {
    words.insert(lowered(i->str()));
  }
  return words;
}

bool is_excepted(const Rule& rule, const std::string& path, const std::string& name) {
  return std::ranges::any_of(rule.exceptions, [&](const std::string& exception) {
    return exception.find('/') != exception.npos ? path.starts_with(exception)
                                                 : lowered(name).find(exception) != name.npos;
  });
}

// Names in code, and the file's own name. Comments, texts and includes are left out.
std::vector<std::string> wrong_words(const SourceFile& file, const std::vector<Rule>& rules) {
  static const std::regex kNoName(R"re(#include.*|//.*|"([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)')re");
  static const std::regex kName("[A-Za-z_][A-Za-z0-9_]*");
  const std::string code =
      std::regex_replace(file.text, kNoName, " ") + " " + std::string(file_name(file.path));
  std::set<std::string> findings;
  for (std::sregex_iterator i(code.begin(), code.end(), kName), end; i != end; ++i) {
    const std::string name = i->str();
    const std::set<std::string> words = words_of(name);
    for (const Rule& rule : rules) {
      for (const std::string& word : rule.words) {
        if (!words.contains(word) && !words.contains(word + "s")) continue;
        if (!is_excepted(rule, file.path, name)) findings.insert(concat(file.path, ": ", name));
      }
    }
  }
  return {findings.begin(), findings.end()};
}

TEST_CASE("no name has a word that means several things") {
  const std::vector<SourceFile> files = read_tree(source_root());
  const std::vector<Rule> rules = rules_in(texts_of(files).at("notes/conventions.md"));
  REQUIRE(rules.size() > 5);
  std::vector<std::string> findings;
  for (const SourceFile& file : files) {
    const bool is_product = is_under(file.path, "kernels/") || is_under(file.path, "common/") ||
                            is_under(file.path, "lessons/") || is_under(file.path, "tools/");
    if (!is_product || !is_cpp(file.path)) continue;
    std::ranges::move(wrong_words(file, rules), std::back_inserter(findings));
  }
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of words reads names, and knows exceptions") {
  const std::vector<Rule> rules = rules_in(
      "| place | no rule |\n\n| not | but | only in |\n|---|---|---|\n| slot | buffer | |\n"
      "| narrow, wide | size | `in_wide` |\n| chunk | tile | `common/schedule/` |\n\ntext\n");
  REQUIRE(rules.size() == 3);
  const auto found = [&](const std::string& path, const std::string& text) {
    return wrong_words({path, text}, rules).size();
  };
  CHECK(found("common/a.h", "size_t num_slots, slots_, kSlotBytes; class FreeSlot;") == 4);
  CHECK(found("common/slot.h", "") == 1);
  CHECK(found("common/a.h", "bool wide, in_wide, widened;") == 1);
  CHECK(found("common/a.h", "// a slot\n#include \"slot.h\"\n f(\"slot\"); int place;") == 0);
  CHECK(found("common/model/a.h", "int chunk;") == 1);
  CHECK(found("common/schedule/a.h", "int chunk;") == 0);
}

}  // namespace
}  // namespace ladder
