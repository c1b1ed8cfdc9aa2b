// Graded exercises: no page quotes what a learner is to write, and all say the same hours.
#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {

// What is taken out of a file for the exercise of a lesson.
struct TakenOut {
  std::string lesson, path;
  std::set<std::string> functions;
};

std::vector<TakenOut> taken_out(const std::string& exercises_bzl) {
  static const std::regex kEntry(
      "\n    \"([0-9]{2}_[a-z0-9_]+)\": \\{|\"//([a-z0-9_/]+):([a-z0-9_/.]+)\": \\[([^\\]]*)\\]"),
      kFunction("\"([A-Za-z0-9_:]+)\"");
  std::vector<TakenOut> found;
  std::string lesson;
  const std::sregex_iterator none;
  for (std::sregex_iterator i(exercises_bzl.begin(), exercises_bzl.end(), kEntry); i != none; ++i) {
    if ((*i)[1].matched) {
      lesson = (*i)[1];
      continue;
    }
    found.push_back({lesson, (*i)[2].str() + "/" + (*i)[3].str(), {}});
    const std::string names = (*i)[4];
    for (std::sregex_iterator name(names.begin(), names.end(), kFunction); name != none; ++name) {
      found.back().functions.insert((*name)[1]);
    }
  }
  return found;
}

std::string without_indent(const std::string& line) {
  return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
}

// The lines of a file, without indent: those of the functions' bodies, and all others. As take_out
// does, it knows a function by its name before the first bracket of a line that is not indented.
struct Cut {
  std::set<std::string> bodies, rest;
};

Cut cut(const std::string& source, const std::set<std::string>& functions) {
  static const std::regex kName("^[A-Za-z][^(]*?([A-Za-z0-9_:]+)\\(");
  Cut cut;
  bool in_signature = false, in_body = false;
  for (const std::string& line : lines_of(source)) {
    std::smatch match;
    if (in_body && line.starts_with("}")) in_body = false;
    (in_body ? cut.bodies : cut.rest).insert(without_indent(line));
    if (!in_body && std::regex_search(line, match, kName)) {
      in_signature = functions.contains(match[1]);
    }
    if (in_signature && (line.ends_with("{") || line.ends_with(";"))) {
      in_body = line.ends_with("{");
      in_signature = false;
    }
  }
  return cut;
}

// Lines of functions that a learner is to write, by the lesson; shorter ones tell nothing.
constexpr size_t kTelling = 12;
struct Secrets {
  std::map<std::string, std::set<std::string>> of_lesson;  // not in the work copy
  std::set<std::string> anywhere;                          // nowhere else in the tree
};

Secrets secrets_of(const Texts& files) {
  Secrets secrets;
  std::map<std::string, std::set<std::string>> handed_out;  // by lesson
  std::set<std::string> rest;
  Texts others = files;
  for (const TakenOut& entry : taken_out(files.at("tools/course/grader/exercises.bzl"))) {
    const Cut parts = cut(files.at(entry.path), entry.functions);
    others.erase(entry.path);
    if (parts.bodies.empty()) fail(entry.path + ": nothing is taken out");
    for (const std::string& line : parts.bodies) {
      if (line.size() >= kTelling) secrets.of_lesson[entry.lesson].insert(line);
    }
    handed_out[entry.lesson].insert(parts.rest.begin(), parts.rest.end());
    rest.insert(parts.rest.begin(), parts.rest.end());
  }
  for (const auto& [path, text] : others) {
    if (!is_cpp(path) || is_under(path, "tests/")) continue;
    for (const std::string& line : lines_of(text)) rest.insert(without_indent(line));
  }
  for (auto& [lesson, lines] : secrets.of_lesson) {
    for (const std::string& line : lines) {
      if (!rest.contains(line)) secrets.anywhere.insert(line);
    }
    std::erase_if(lines,
                  [&](const std::string& line) { return handed_out[lesson].contains(line); });
  }
  return secrets;
}

// Quoted lines that give an exercise away. What a bug changes has to be shown, where its answer is
// unfolded, but none of the lines around it.
std::vector<std::string> told(const SourceFile& page, const Secrets& secrets) {
  static const std::regex kLesson("^lessons/([^/]+)/");
  std::smatch match;
  std::set<std::string> own;
  if (std::regex_search(page.path, match, kLesson)) {
    const auto found = secrets.of_lesson.find(match[1]);
    if (found != secrets.of_lesson.end()) own = found->second;
  }
  std::vector<std::string> findings;
  bool in_block = false, in_diff = false;
  for (const std::string& indented : lines_of(page.text)) {
    std::string line = without_indent(indented);
    if (line.starts_with("```")) {
      in_block = !in_block;
      in_diff = line == "```diff";
    }
    const bool is_change = in_diff && (line.starts_with("-") || line.starts_with("+"));
    if (is_change && is_under(page.path, "zoo/")) continue;
    if (is_change) line = without_indent(line.substr(1));
    if (in_block && (own.contains(line) || secrets.anywhere.contains(line))) {
      findings.push_back(concat(page.path, ": a learner is to write this: ", line));
    }
  }
  return findings;
}

// ---- hours

// Hours to read and to write the exercise, by lesson, as notes/lessons.md has them.
struct Hours {
  double reading = 0, exercise = 0;
};

std::map<std::string, Hours> hours_in(const std::string& table) {
  static const std::regex kRow(R"(^\| \[([0-9]{2}_[a-z0-9_/]+)\].* \| ([0-9.]+) \+ ([0-9.]+) \| )");
  std::map<std::string, Hours> hours;
  for (const std::string& line : lines_of(table)) {
    std::smatch row;
    if (!std::regex_search(line, row, kRow)) continue;
    hours[row[1]] = {std::stod(row[2]), std::stod(row[3])};
  }
  return hours;
}

std::string in_words(double hours) {
  static const std::map<double, std::string> kWords = {
      {0.5, "half an hour"}, {1, "an hour"}, {2, "two hours"}};
  const auto found = kWords.find(hours);
  return found == kWords.end() ? concat(hours, " hours") : found->second;
}

// The front page adds up the lessons, and those that its table links.
std::string total_hours(const std::string& front_page, const std::map<std::string, Hours>& hours) {
  static const std::regex kCore(
      R"(^\| \[.*\]\(lessons/([0-9]{2}_[a-z0-9_/]+?)(/README)?\.md\) \|)");
  double all = 0, core = 0;
  for (const auto& [lesson, time] : hours) all += time.reading + time.exercise;
  for (const std::string& line : lines_of(front_page)) {
    std::smatch row;
    if (!std::regex_search(line, row, kCore)) continue;
    const auto found = hours.find(row[1]);
    if (found != hours.end()) core += found->second.reading + found->second.exercise;
  }
  return concat("about ", std::ceil(all), " hours; the core path is ", std::ceil(core), ".");
}

std::vector<std::string> wrong_hours(const Texts& files) {
  const auto hours = hours_in(files.at("notes/lessons.md"));
  std::vector<std::string> findings;
  for (const TakenOut& entry : taken_out(files.at("tools/course/grader/exercises.bzl"))) {
    const auto found = hours.find(entry.lesson);
    if (found == hours.end()) {
      findings.push_back("notes/lessons.md has no hours of " + entry.lesson);
      continue;
    }
    const std::string page = concat("lessons/", entry.lesson, "/README.md");
    const std::string text = concat("Take ", in_words(found->second.exercise));
    std::string story = files.at(page);
    std::ranges::replace(story, '\n', ' ');
    if (story.find(text) == story.npos) findings.push_back(concat(page, " does not say: ", text));
  }
  std::string front_page = files.at("README.md");
  const std::string total = total_hours(front_page, hours);
  std::ranges::replace(front_page, '\n', ' ');
  if (front_page.find(total) == front_page.npos) {
    findings.push_back("README.md does not say: " + total);
  }
  return findings;
}

TEST_CASE("no page quotes what a learner is to write") {
  const std::vector<SourceFile> tree = read_tree(source_root());
  const Secrets secrets = secrets_of(texts_of(tree));
  CHECK(secrets.of_lesson.size() >= 19);
  std::vector<std::string> findings;
  for (const SourceFile& page : tree) {
    if (page.path.ends_with(".md"))
      std::ranges::move(told(page, secrets), std::back_inserter(findings));
  }
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the hours of a lesson are those of notes/lessons.md everywhere") {
  const std::vector<std::string> findings = wrong_hours(texts_of(read_tree(source_root())));
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of exercises finds what is told, and other hours") {
  Texts files;
  files["tools/course/grader/exercises.bzl"] =
      "E = {\n    \"01_x\": {\n        \"//lessons/01_x:a.cc\": [\"A::sum\"],\n    },\n}\n";
  files["lessons/01_x/a.cc"] =
      "int A::sum(int a,\n    int b) {\n  const int sum = a + b;\n  const int twice = 2 * sum;\n"
      "  return twice;\n}\nint f() {\n  return twice;\n}\n";
  files["lessons/02_y/b.cc"] = "  const int twice = 2 * sum;\n";
  const Secrets secrets = secrets_of(files);
  const auto found = [&](const std::string& path, const std::string& quote) {
    return told({path, "x\n```diff\n" + quote + "\n```\n"}, secrets).size();
  };
  CHECK(found("notes/a.md", "  const int sum = a + b;") == 1);
  CHECK(found("notes/a.md", "-    const int sum = a + b;") == 1);
  CHECK(found("notes/a.md", "const int twice = 2 * sum;") == 0);  // lesson 02 has it, too
  CHECK(found("lessons/01_x/README.md", "const int twice = 2 * sum;") == 1);
  CHECK(found("lessons/01_x/README.md", "return twice;") == 0);  // the work copy has it
  CHECK(found("zoo/01.md", "-  const int sum = a + b;") == 0);
  CHECK(found("zoo/01.md", "   const int sum = a + b;") == 1);
  CHECK(told({"notes/a.md", "const int sum = a + b;"}, secrets).empty());  // no code

  files["README.md"] =
      "All of them are about 4 hours; the\ncore path is 2.\n| [01 x](lessons/01_x/README.md) | X "
      "|\n";
  files["notes/lessons.md"] =
      "| [01_x](../lessons/01_x/README.md) | x | 1 + 0.5 | `tools/run` |\n"
      "| [02_y](../lessons/02_y/README.md) | y | 1 + 1 | `tools/run` |\n";
  files["lessons/01_x/README.md"] = "Take half\nan hour.";
  const auto wrong = [&](const std::string& path, const std::string& text) {
    Texts changed = files;
    changed[path] = text;
    return wrong_hours(changed).size();
  };
  CHECK(wrong("notes/a.md", "") == 0);
  CHECK(wrong("lessons/01_x/README.md", "Take an hour.") == 1);
  CHECK(wrong("README.md", "All of them are about 5 hours; the core path is 2.") == 1);
  CHECK(wrong("notes/lessons.md", "") == 2);
}

}  // namespace
}  // namespace ladder
