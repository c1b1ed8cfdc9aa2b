// The bug zoo: every bug of zoo/BUILD has its page, and every page its bug, with all that a reader
// looks for, and nothing that gives the cause away before the answer is unfolded.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/markdown.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// The fields of one bug(...) that are a single string, by their names, and the lines of `edits`.
using Bug = std::map<std::string, std::string>;

std::vector<Bug> bugs_in(const std::string& build) {
  static const std::regex kField("^    ([a-z_]+) = \"(.*)\",$");
  std::vector<Bug> bugs;
  bool in_edits = false;
  for (const std::string& line : lines_of(build)) {
    std::smatch match;
    if (line == "bug(") bugs.emplace_back();
    if (line == "    edits = {") in_edits = true;
    if (line == "    },") in_edits = false;
    if (in_edits) bugs.back()["edits"] += line + "\n";
    if (!bugs.empty() && std::regex_match(line, match, kField)) bugs.back()[match[1]] = match[2];
  }
  return bugs;
}

std::string page_of(Bug bug) { return concat("zoo/", bug["name"], ".md"); }

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
                                         "## Answer",
                                         "<details><summary>First hint</summary>",
                                         "<details><summary>Second hint</summary>",
                                         "<details><summary>Third hint</summary>",
                                         "<details><summary>The cause</summary>",
                                         "<details><summary>Where it happened</summary>",
                                         "<details><summary>How it is caught</summary>"};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return std::tolower(c); });
  return text;
}

// What tells the cause before the answer is unfolded. What a program prints is no such thing.
std::vector<std::string> leaks_of(Bug bug, const std::string& page) {
  static const std::regex kName("<summary>The cause</summary>\n\n\\*\\*([^*]+)\\.\\*\\*"),
      kWord("[A-Za-z_][A-Za-z0-9_]*");
  std::vector<std::string> findings;
  const Markdown open = read_markdown(page.substr(0, page.find("\n## Answer\n")));
  std::string text = open.prose;
  for (const std::string& span : open.spans) text += " " + span;
  std::smatch name;
  if (!std::regex_search(page, name, kName)) {
    findings.push_back("no name of the bug, in bold, where the cause is unfolded");
  } else if (lower(text).find(lower(name[1])) != std::string::npos) {
    findings.push_back(concat("its name is told too early: ", name[1].str()));
  }
  if (text.find("](http") != std::string::npos) findings.push_back("the thread is told too early");
  if (text.find(file_name(path_of(bug["source"]))) != std::string::npos) {
    findings.push_back("the file is told too early: " + bug["source"]);
  }
  std::set<std::string> told;
  for (std::sregex_iterator word(text.begin(), text.end(), kWord), end; word != end; ++word) {
    told.insert(word->str());
  }
  const std::string edits = bug["edits"];
  for (std::sregex_iterator word(edits.begin(), edits.end(), kWord), end; word != end; ++word) {
    const std::string& identifier = word->str();
    if (identifier.find('_') != std::string::npos && told.erase(identifier) > 0) {
      findings.push_back("a name of the edit is told too early: " + identifier);
    }
  }
  return findings;
}

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
  require(page.starts_with(concat("# ", bug["name"], ": ")), "it does not begin with its number");
  require(
      contains(concat("\nLesson [", bug["lesson"], "](../lessons/", bug["lesson"], "/README.md)")),
      "it does not name its lesson");
  require(parts == kParts, "other parts than the pages have");
  require(contains("\n$ tools/zoo run " + bug["name"] + "\n"), "no run of it is shown");
  require(num_changes > 0, "the change is not shown");
  require(contains("](https://github.com/"), "no link to where it happened");
  const std::string test = bug["test"].substr(0, bug["test"].find("_cases"));
  require(contains("`" + test + "`"), "it does not name the test that catches it: " + test);
  require(contains("\"" + bug["case"] + "\""), "it does not name the case: " + bug["case"]);
  const auto cases = files.find(path_of(test) + ".cc");
  require(cases != files.end() &&
              in_one_line(cases->second).find("\"" + bug["case"] + "\"") != std::string::npos,
          concat(test, " has no such case: ", bug["case"]));
  for (const std::string& leak : leaks_of(bug, page)) require(false, leak);
  static const std::regex kLine(R"(\.(h|cc):[0-9])");
  require(!std::regex_search(page, kLine), "it quotes the number of a line, which will move");
  return findings;
}

// Pages that link to the page of a bug elsewhere than where they ask to find it: what they say
// there tells the cause.
std::vector<std::string> wrong_links(const SourceFile& page) {
  static const std::regex kLink("zoo/[0-9]{2}\\.md");
  std::vector<std::string> findings;
  bool is_invited = false, is_in_paragraph = false;
  for (const std::string& line : lines_of(page.text)) {
    if (!is_in_paragraph) is_invited = line.starts_with("**Find the bug.**");
    is_in_paragraph = !line.empty();
    if (!is_invited && std::regex_search(line, kLink)) {
      findings.push_back(concat(page.path, ": links a bug where it is explained: ", line));
    }
  }
  return findings;
}

std::vector<std::string> wrong_in_zoo(const Texts& files) {
  std::vector<std::string> findings;
  std::set<std::string> pages, lessons, titles;
  size_t number = 0;
  for (Bug& bug : bugs_in(files.at("zoo/BUILD"))) {
    ++number;
    const std::string page = page_of(bug);
    pages.insert(page);
    lessons.insert(bug["lesson"]);
    if (bug["name"] != concat(number < 10 ? "0" : "", number)) {
      findings.push_back(concat("zoo/BUILD: ", bug["name"], " is not the next number"));
    }
    if (!files.contains(page)) {
      findings.push_back(page + " is missing");
    } else {
      const std::string& text = files.at(page);
      if (!titles.insert(text.substr(4, text.find('\n') - 4)).second) {
        findings.push_back(page + " has the title of another page");
      }
      std::ranges::move(wrong_in_page(bug, files.at(page), files), std::back_inserter(findings));
    }
  }
  for (const auto& [path, text] : files) {
    if (is_under(path, "zoo/") && path.ends_with(".md") && path != "zoo/README.md" &&
        !pages.contains(path)) {
      findings.push_back(path + " is the page of no bug");
    }
    if (path.ends_with(".md") && !is_under(path, "zoo/")) {
      std::ranges::move(wrong_links({path, text}), std::back_inserter(findings));
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
      "bug(\n    name = \"01\",\n    case = \"it is right\",\n    edits = {\n        \"the_y\": "
      "\"\",\n    },\n    lesson = \"01_x\",\n    source = \"//lessons/01_x:a.cc\",\n"
      "    test = \"//tests/lessons/01_x:a_test_cases\",\n)\n";
  std::string page = "# 01: B\n\nLesson [01_x](../lessons/01_x/README.md).\n";
  for (const std::string& part : kParts) page += part + "\n";
  const std::string cause = kParts[5] + "\n";
  page.insert(page.find(cause) + cause.size(), "\n**A Name.** It is.\n");
  page +=
      "[t](https://github.com/a/b)\n```\n$ tools/zoo run 01\n```\n"
      "```diff\n-int y = 1;\n+int y = 2;\n```\n`//tests/lessons/01_x:a_test`, \"it is right\"\n";
  const auto found = [&](const std::string& path, const std::string& text) {
    Texts changed = files;
    changed["zoo/01.md"] = page;
    changed[path] = text;
    return wrong_in_zoo(changed);
  };
  CHECK(found("zoo/README.md", "").empty());
  CHECK(wrong_in_zoo(files) == std::vector<std::string>{"zoo/01.md is missing"});
  CHECK(found("zoo/02.md", page).size() == 1);
  CHECK(found("lessons/02_y/main.cc", "").size() == 1);
  CHECK(found("lessons/01_x/a.cc", "\nint y = 7;\n").size() == 1);
  CHECK(found("tests/lessons/01_x/a_test.cc", "TEST_CASE(\"it\") {}").size() == 1);
  const auto without = [&](const std::string& text) {
    std::string changed = page;
    changed.erase(changed.find(text), text.size());
    return found("zoo/01.md", changed).size();
  };
  for (const std::string& part : kParts) CHECK(without(part + "\n") >= 1);
  for (const char* const text :
       {"# 01", "it is right", "a_test", "github", "run 01", "Lesson", "**A Name.**"}) {
    INFO(text);
    CHECK(without(text) == 1);
  }
  const auto with = [&](const std::string& text) {
    std::string changed = page;
    changed.insert(changed.find("\n## Answer") + 1, text + "\n");
    return found("zoo/01.md", changed).size();
  };
  CHECK(with("int y") == 0);
  for (const char* const text : {"`a.cc`", "[t](https://a.b)", "a name", "`the_y`"}) {
    INFO(text);
    CHECK(with(text) == 1);
  }
  CHECK(with("```\na.cc: the_y\n```") == 0);  // a program prints it
  CHECK(with("```\na.cc:12: the_y\n```") == 1);
  const std::string link = "[its page](../zoo/01.md)";
  CHECK(found("a.md", "**Find the bug.** It is on\n" + link + ".\n").empty());
  CHECK(found("a.md", "**Find the bug.**\n\nSomebody forgot to wait. " + link).size() == 1);
  const std::string build = files["zoo/BUILD"];
  CHECK(found("zoo/BUILD", build + build).size() == 2);  // a number twice, and so its title
}

}  // namespace
}  // namespace ladder
