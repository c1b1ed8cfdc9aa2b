// The commands in Markdown files: scripts, targets, lessons and flags that exist.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "common/model/family.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/tree/markdown.h"
#include "tests/tree/tree.h"

namespace ladder {
namespace {
namespace fs = std::filesystem;

// Flags of other programs, which no source here knows.
const std::set<std::string> kForeignFlags = {
    "--benchmark_filter",  // Google Benchmark
    "--logdir",            // tensorboard
    "--nnodes",            // torchrun, this one and those that follow
    "--nproc_per_node",   "--node_rank", "--master_addr", "--master_port",
};

bool has_script(const std::string& name, const Texts& texts) {
  return std::ranges::any_of(texts, [&](const auto& file) {
    return file.first == name || is_under(file.first, name + "/");
  });
}

bool is_code(const std::string& path) {
  return !is_under(path, "tests/") && !path.ends_with(".md");
}

// All flags that the sources, the scripts and .bazelrc know: where a flag begins a string, or
// stands in a script.
std::set<std::string> flags_of_tree(const Texts& texts) {
  static const std::regex kFlag(R"(--[a-z][a-z0-9_-]*[a-z0-9])");
  std::set<std::string> flags;
  for (const auto& [path, text] : texts) {
    if (!is_code(path)) continue;
    for (auto match = std::sregex_iterator(text.begin(), text.end(), kFlag);
         match != std::sregex_iterator(); ++match) {
      const size_t at = static_cast<size_t>(match->position());
      if (is_cpp(path) && (at == 0 || text[at - 1] != '"')) continue;
      flags.insert(match->str());
    }
  }
  return flags;
}

// Does a BUILD file have the target? "//tools/pages" is "//tools/pages:pages". A lesson's program
// has the name of its folder.
bool has_target(const std::string& label, const Texts& texts) {
  const size_t colon = label.find(':');
  const std::string package = label.substr(2, colon - 2);
  const std::string name = colon == std::string::npos
                               ? fs::path(package).filename().generic_string()
                               : label.substr(colon + 1);
  if (name == "...") {
    const std::string folder = package.substr(0, package.size() - 3);
    return std::ranges::any_of(texts, [&](const auto& file) {
      return is_under(file.first, folder) && file_name(file.first) == "BUILD";
    });
  }
  const auto build = texts.find(package.empty() ? "BUILD" : package + "/BUILD");
  if (build == texts.end()) return false;
  return build->second.find('"' + name + '"') != std::string::npos ||
         (colon == std::string::npos && build->second.find("\nlesson(") != std::string::npos);
}

size_t num_lessons(const std::string& beginning, const Texts& texts) {
  return static_cast<size_t>(std::ranges::count_if(texts, [&](const auto& file) {
    return file.first.starts_with("lessons/" + beginning) && file.first.ends_with("/main.cc");
  }));
}

// "" or why the word cannot be part of a command.
std::string wrong_word(const std::string& word, const Texts& texts) {
  static const std::regex kScript(R"(tools/[a-z_/]+)"),
      kProgram(R"((cuda|bazel)-bin/(.+)/([^/]+))"), kLabel(R"(//[A-Za-z0-9_.][A-Za-z0-9_/.:-]*)");
  std::smatch match;
  if (std::regex_match(word, kScript) && !has_script(word, texts)) {
    return "no script " + word;
  }
  if (std::regex_match(word, match, kProgram)) {
    const std::string label = "//" + match.str(2) + ":" + match.str(3);
    const std::string folder = fs::path(match.str(2)).filename();
    const bool exists = has_target(folder == match.str(3) ? "//" + match.str(2) : label, texts);
    if (!exists) return concat("no target ", label);
  }
  if (std::regex_match(word, kLabel) && !has_target(word, texts)) return "no target " + word;
  return "";
}

// What is wrong with a command, or with a line of code that holds one.
std::vector<std::string> wrong_in(const std::string& code, const Texts& texts,
                                  const std::set<std::string>& flags) {
  static const std::regex kWord(R"([^\s"'();,]+)"),
      kLesson(R"((tools/(run|lesson_diff|exercise|grade)|\bfor l in)((\s+[0-9][0-9a-z_]*)+))"),
      kNumber(R"([0-9][0-9a-z_]*)"), kFlag(R"(--[a-z][a-z0-9_-]*)");
  std::vector<std::string> findings;
  const auto each = [](const std::string& text, const std::regex& what, const auto& visit) {
    for (auto i = std::sregex_iterator(text.begin(), text.end(), what); i != std::sregex_iterator();
         ++i) {
      visit(*i);
    }
  };
  each(code, kWord, [&](const std::smatch& word) {
    const std::string wrong = wrong_word(word.str(), texts);
    if (!wrong.empty()) findings.push_back(wrong);
  });
  each(code, kLesson, [&](const std::smatch& command) {
    each(command.str(3), kNumber, [&](const std::smatch& lesson) {
      if (num_lessons(lesson.str(), texts) != 1) findings.push_back("no lesson " + lesson.str());
    });
  });
  each(code, kFlag, [&](const std::smatch& flag) {
    if (!flags.contains(flag.str())) findings.push_back("no flag " + flag.str());
  });
  return findings;
}

std::vector<std::string> wrong_commands(const SourceFile& page, const Texts& texts,
                                        const std::set<std::string>& flags) {
  std::vector<std::string> findings;
  const Markdown markdown = read_markdown(page.text);
  for (const auto& codes : {markdown.spans, markdown.lines}) {
    for (const std::string& code : codes) {
      for (const std::string& wrong : wrong_in(code, texts, flags)) {
        findings.push_back(concat(page.path, ": ", wrong, ": ", code));
      }
    }
  }
  return findings;
}

// What is wrong with commands that are pasted one after another: one has no time, writes elsewhere
// than to out/, writes what is there, or reads what no command before it has written.
std::vector<std::string> wrong_sequence(const std::vector<std::string>& lines) {
  static const std::set<std::string> kOutputs = {
      "--dump",   "--metrics", "--tensorboard", "--trace",       "--draw",
      "--export", "--out",     "--checkpoint",  "--save-config", "--folder"};
  static const std::regex kTime(R"( +# \d+ (s|min|h)(: .+)?$)"), kWord(R"([^\s'"=;&]+)");
  std::vector<std::string> findings;
  std::set<std::string> written;
  for (const std::string& line : lines) {
    std::smatch time;
    if (!std::regex_search(line, time, kTime)) findings.push_back("no time: " + line);
    const std::string command = line.substr(0, line.find(" #"));
    const bool resumes = command.find("--resume") != command.npos;
    const bool trains_tokenizer = command.find("--train ") != command.npos;
    // Of these programs an output is an argument without a flag: the last one.
    const bool has_last = command.find(":timeline ") != command.npos ||
                          command.find("checkpoint merge ") != command.npos;
    std::string before;
    std::vector<std::pair<std::string, bool>> paths;  // and whether they are outputs
    for (auto i = std::sregex_iterator(command.begin(), command.end(), kWord);
         i != std::sregex_iterator(); ++i) {
      const std::string word = i->str();
      const bool is_output = kOutputs.contains(before) || before == "venv" ||
                             (trains_tokenizer && before == "--tokenizer");
      if (is_output || word.starts_with("out/")) paths.emplace_back(word, is_output && !resumes);
      before = word;
    }
    if (has_last && !paths.empty()) paths.back().second = true;
    for (const auto& [path, is_output] : paths) {
      const bool is_there = std::ranges::any_of(written, [&](const std::string& other) {
        const size_t star = path.find('*');
        return path == other || path.starts_with(other + "/") ||
               other.starts_with(star == path.npos ? path + "/" : path.substr(0, star));
      });
      if (!path.starts_with("out/")) findings.push_back("written elsewhere: " + line);
      if (is_output == is_there) {
        findings.push_back(concat(path, is_output ? " is there: " : " is not there: ", line));
      }
      written.insert(path);
    }
  }
  return findings;
}

TEST_CASE("a page's commands can be pasted one after another, each with its time") {
  const Texts texts = texts_of(read_tree(source_root()));
  size_t num_lines = 0;
  for (const std::string page :
       {"README.md", "notes/tools.md", "notes/files.md", "notes/gpus.md"}) {
    const std::vector<std::string> lines = read_markdown(texts.at(page)).lines;
    const std::vector<std::string> findings = wrong_sequence(lines);
    INFO(page << report(findings));
    CHECK(findings.empty());
    num_lines += lines.size();
  }
  CHECK(num_lines > 40);
  CHECK_THAT(texts.at(".gitignore"), ContainsSubstring("\n/out/\n"));
}

TEST_CASE("a command that cannot follow those before it is found") {
  const auto first = [](const std::vector<std::string>& lines) {
    const std::vector<std::string> findings = wrong_sequence(lines);
    return findings.empty() ? "" : findings[0];
  };
  CHECK(first({"a --dump out/a  # 5 s: dumps", "b out/a/x out/a # 1 min"}) == "");
  CHECK(first({"a --out out/s/x  # 5 s", "b --data 'out/s/*.bin'  # 1 s"}) == "");
  CHECK(first({"a --checkpoint out/c # 1 s", "b --checkpoint out/c --resume # 1 s"}) == "");
  CHECK(first({"a --trace out/t # 1 s", "bazel run //x:timeline -- out/t out/step.svg # 1 s"}) ==
        "");
  CHECK(first({"a --dump out/a # dumps"}) == "no time: a --dump out/a # dumps");
  CHECK(first({"a --dump out/a"}) == "no time: a --dump out/a");
  CHECK(first({"a --dump a # 1 s"}) == "written elsewhere: a --dump a # 1 s");
  CHECK(first({"b out/a # 1 s"}) == "out/a is not there: b out/a # 1 s");
  CHECK(first({"a --dump out/a # 1 s", "b --export out/a # 1 s"}) ==
        "out/a is there: b --export out/a # 1 s");
}

TEST_CASE("commands of Markdown files name scripts, targets, lessons and flags that exist") {
  const std::vector<SourceFile> tree = read_tree(source_root());
  const Texts texts = texts_of(tree);
  std::set<std::string> flags = flags_of_tree(texts);
  // Those of a model's family are made of the names of its choices.
  for (const FamilyChoice& choice : family_choices()) flags.insert(choice.flag());
  for (const std::string& flag : kForeignFlags) {
    INFO(flag);
    CHECK(flags.insert(flag).second);  // else it need not be in the list
  }
  std::vector<std::string> findings;
  size_t num_pages = 0;
  for (const SourceFile& file : tree) {
    if (!file.path.ends_with(".md")) continue;
    ++num_pages;
    std::ranges::move(wrong_commands(file, texts, flags), std::back_inserter(findings));
  }
  CHECK(num_pages > 15);
  INFO(report(findings));
  CHECK(findings.empty());
}

TEST_CASE("the checker of commands finds what does not exist") {
  const Texts texts = {
      {"tools/run", "for --ranks in\n"},
      {"tools/pages/BUILD", "name = \"pages\""},
      {"lessons/02_ddp/BUILD", "x\nlesson(parents = [])\ncc_binary(name = \"benchmark\")"},
      {"lessons/02_ddp/main.cc", "add(\"--naive{true}\"); // --comment"},
      {"tests/a_test.cc", "\"--tested\""}};
  const std::set<std::string> flags = flags_of_tree(texts);
  CHECK(flags == std::set<std::string>{"--naive", "--ranks"});
  const auto wrong = [&](const std::string& text) {
    return wrong_commands({"README.md", text}, texts, flags);
  };
  const std::string good = GENERATE(
      "`tools/run 02_ddp -n 4 --naive`", "`tools/run 02`", "see `tools/pages`",
      "```\ntools/run 02; bazel-bin/tools/pages/pages a b\n```\n", "`bazel run //tools/pages`",
      "`bazel test //lessons/...`", "`bazel-bin/lessons/02_ddp/02_ddp`", "`//lessons/02_ddp`",
      "`bazel run //lessons/02_ddp:benchmark -- --ranks`", "--other in prose",
      "```cpp\n--counter; // --other\n```\n", "```\nfor l in 02_ddp; do tools/run $l; done\n```\n");
  CAPTURE(good);
  CHECK(wrong(good).empty());
  const auto [bad, what] = GENERATE(table<std::string, std::string>({
      {"`tools/runs 02`", "no script tools/runs"},
      {"`tools/pages/runs`", "no script tools/pages/runs"},
      {"`tools/run 03`", "no lesson 03"},
      {"`tools/run\n03_zero1`", "no lesson 03_zero1"},
      {"```\ntools/run 02_ddp --overlap\n```\n", "no flag --overlap"},
      {"`--comment`", "no flag --comment"},
      {"`--tested`", "no flag --tested"},
      {"`--naive-2`", "no flag --naive-2"},
      {"`bazel test //tests/...`", "no target //tests/..."},
      {"`bazel run //tools/pages:comparison`", "no target //tools/pages:comparison"},
      {"`bazel run //lessons/02_ddp:trainer`", "no target //lessons/02_ddp:trainer"},
      {"`bazel-bin/lessons/03_zero1/03_zero1`", "no target //lessons/03_zero1:03_zero1"},
      {"```\nfor l in 02_ddp 04_zero2; do\n```\n", "no lesson 04_zero2"},
  }));
  CAPTURE(bad);
  const std::vector<std::string> findings = wrong(bad);
  REQUIRE(findings.size() == 1);
  CHECK_THAT(findings[0], StartsWith("README.md: " + what + ": "));
}

}  // namespace
}  // namespace ladder
