// The bug zoo: every bug of zoo/BUILD has its page, and every page its bug, with all that a reader
// looks for.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// The fields of one bug(...) that are a single string, by their names.
using Bug = std::map<std::string, std::string>;

std::vector<Bug> bugs_in(const std::string& build) {
  static const std::regex kField("^    ([a-z_]+) = \"(.*)\",$");
  std::vector<Bug> bugs;
  for (const std::string& line : lines_of(build)) {
    std::smatch match;
    if (line == "bug(") bugs.emplace_back();
    if (!bugs.empty() && std::regex_match(line, match, kField)) bugs.back()[match[1]] = match[2];
  }
  return bugs;
}

std::string page_of(Bug bug) { return concat("zoo/", bug["number"], "_", bug["name"], ".md"); }

// "lessons/02_ddp/trainer.cc" of "//lessons/02_ddp:trainer.cc".
std::string path_of(std::string label) {
  label.erase(0, 2);
  std::ranges::replace(label, ':', '/');
  return label;
}

// Returns a source in which no text is broken into several.
std::string in_one_line(const std::string& source) {
  static const std::regex kBreak("\"\\s*\n\\s*\"");
  return std::regex_replace(source, kBreak, "");
}

// What a page has, in this order, each on a line of its own.
const std::vector<std::string> kParts = {"## Symptom",
                                         "## Where it happened",
                                         "## Answer",
                                         "<details><summary>First hint</summary>",
                                         "<details><summary>Second hint</summary>",
                                         "<details><summary>Third hint</summary>",
                                         "<details><summary>The cause</summary>",
                                         "<details><summary>How it is caught</summary>"};

std::vector<std::string> wrong_in_page(Bug bug, const std::string& page, const Texts& files) {
  std::vector<std::string> findings, parts;
  const auto require = [&](bool good, const std::string& what) {
    if (!good) findings.push_back(concat(page_of(bug), ": ", what));
  };
  const auto contains = [&](const std::string& text) {
    return page.find(text) != std::string::npos;
  };
  const auto source = files.find(path_of(bug["source"]));
  require(source != files.end(), "its source is no file: " + bug["source"]);
  bool in_diff = false;
  size_t num_changes = 0;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("## ") || line.starts_with("<details>")) parts.push_back(line);
    if (line.starts_with("```")) in_diff = line == "```diff";
    num_changes += in_diff && (line.starts_with("-") || line.starts_with("+"));
    const bool is_old = line.starts_with("-") || line.starts_with(" ");
    if (!in_diff || !is_old || source == files.end()) continue;
    require(source->second.find("\n" + line.substr(1) + "\n") != std::string::npos,
            "no line of the source: " + line);
  }
  require(page.starts_with(concat("# ", bug["number"], ": ")), "it does not begin with its number");
  require(
      contains(concat("\nLesson [", bug["lesson"], "](../lessons/", bug["lesson"], "/README.md)")),
      "it does not name its lesson");
  require(parts == kParts, "other parts than the pages have");
  require(contains("\n$ tools/zoo run " + bug["number"] + "\n"), "no run of it is shown");
  require(num_changes > 0, "the change is not shown");
  require(contains("](https://github.com/"), "no link to where it happened");
  const std::string test = bug["test"].substr(0, bug["test"].find("_cases"));
  require(contains("`" + test + "`"), "it does not name the test that catches it: " + test);
  require(contains("\"" + bug["case"] + "\""), "it does not name the case: " + bug["case"]);
  const auto cases = files.find(path_of(test) + ".cc");
  require(cases != files.end() &&
              in_one_line(cases->second).find("\"" + bug["case"] + "\"") != std::string::npos,
          concat(test, " has no such case: ", bug["case"]));
  return findings;
}

std::vector<std::string> wrong_in_zoo(const Texts& files) {
  std::vector<std::string> findings;
  std::set<std::string> pages, lessons;
  size_t number = 0;
  for (Bug& bug : bugs_in(files.at("zoo/BUILD"))) {
    ++number;
    const std::string page = page_of(bug);
    pages.insert(page);
    lessons.insert(bug["lesson"]);
    if (bug["number"] != concat(number < 10 ? "0" : "", number)) {
      findings.push_back(concat("zoo/BUILD: ", bug["number"], " is not the next number"));
    }
    if (!files.contains(page)) {
      findings.push_back(page + " is missing");
    } else {
      std::ranges::move(wrong_in_page(bug, files.at(page), files), std::back_inserter(findings));
    }
  }
  for (const auto& [path, text] : files) {
    if (is_under(path, "zoo/") && path.ends_with(".md") && path != "zoo/README.md" &&
        !pages.contains(path)) {
      findings.push_back(path + " is the page of no bug");
    }
    static const std::regex kLesson("lessons/([0-9]{2}_[a-z0-9_]+)/main\\.cc");
    std::smatch match;
    if (std::regex_match(path, match, kLesson) && !lessons.contains(match[1])) {
      findings.push_back(concat("lesson ", match[1].str(), " has no bug"));
    }
  }
  return findings;
}

TEST_CASE("every bug of the zoo has its page and every lesson its bug") {
  const Texts files = texts_of(read_tree(source_root()));
  CHECK(bugs_in(files.at("zoo/BUILD")).size() >= 24);
  const std::vector<std::string> findings = wrong_in_zoo(files);
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of the zoo finds what is missing") {
  Texts files;
  files["lessons/01_x/main.cc"] = "";
  files["lessons/01_x/a.cc"] = "\nint y = 1;\n";
  files["tests/lessons/01_x/a_test.cc"] = "TEST_CASE(\"it is \"\n  \"right\") {}";
  files["zoo/BUILD"] =
      "bug(\n    name = \"b\",\n    case = \"it is right\",\n    lesson = \"01_x\",\n"
      "    number = \"01\",\n    source = \"//lessons/01_x:a.cc\",\n"
      "    test = \"//tests/lessons/01_x:a_test_cases\",\n)\n";
  std::string page =
      "# 01: B\n\nLesson [01_x](../lessons/01_x/README.md).\n[t](https://github.com/a/b)\n"
      "```\n$ tools/zoo run 01\n```\n```diff\n-int y = 1;\n+int y = 2;\n```\n"
      "`//tests/lessons/01_x:a_test`, \"it is right\"\n";
  for (const std::string& part : kParts) page += part + "\n";
  const auto found = [&](const std::string& path, const std::string& text) {
    Texts changed = files;
    changed["zoo/01_b.md"] = page;
    changed[path] = text;
    return wrong_in_zoo(changed);
  };
  CHECK(found("zoo/README.md", "").empty());
  CHECK(wrong_in_zoo(files) == std::vector<std::string>{"zoo/01_b.md is missing"});
  CHECK(found("zoo/02_c.md", page).size() == 1);
  CHECK(found("lessons/02_y/main.cc", "").size() == 1);
  CHECK(found("lessons/01_x/a.cc", "\nint y = 7;\n").size() == 1);
  CHECK(found("tests/lessons/01_x/a_test.cc", "TEST_CASE(\"it\") {}").size() == 1);
  const auto without = [&](const std::string& text) {
    std::string changed = page;
    changed.erase(changed.find(text), text.size());
    return found("zoo/01_b.md", changed).size();
  };
  for (const std::string& part : kParts) CHECK(without(part + "\n") == 1);
  for (const char* const text : {"# 01", "it is right", "a_test", "github", "run 01", "Lesson"}) {
    INFO(text);
    CHECK(without(text) == 1);
  }
  const std::string build = files["zoo/BUILD"];
  CHECK(found("zoo/BUILD", build + build).size() == 1);  // a number twice
}

}  // namespace
}  // namespace ladder
