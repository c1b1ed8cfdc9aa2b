// The flags of all lessons in files: the examples that the pages run, what --save-config writes,
// and the table of other programs' flags.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "common/train/flags/saved_flags.h"
#include "common/train/program/program.h"
#include "lessons/00_collectives/program.h"
#include "lessons/19_planning/program.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/lessons/all_trainers.h"

namespace ladder {
namespace {

using Flags = std::vector<std::string>;

// What a lesson's program knows of its flags after it has read them.
struct Read {
  std::string name;
  std::string saved;          // what --save-config would write
  std::set<std::string> all;  // names
};

std::set<std::string> names_of(const CLI::App& app) {
  std::set<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.insert(option->get_name());
  return names;
}

std::vector<const char*> pointers(const Flags& flags) {
  std::vector<const char*> argv = {"program"};
  for (const std::string& flag : flags) argv.push_back(flag.c_str());
  return argv;
}

template <class T>
Read read_trainer(const Flags& flags, size_t num_ranks) {
  const Program program = make_program<T>();
  Options options(program.lesson, program.add_flags);
  const std::vector<const char*> argv = pointers(flags);
  const std::string asked = options.parse(static_cast<int>(argv.size()), argv.data());
  CHECK(asked.empty());
  RunConfig config = options.resolve(program.grid(num_ranks, 0));
  if (program.adjust) program.adjust(config);
  return {program.lesson.name, saved_flags(options.table(), &config), names_of(options.app())};
}

template <class F>
Read read_other(const LessonInfo& lesson, const Flags& flags) {
  CLI::App app("", lesson.name);
  FlagTable table(app);
  F of_lesson;
  of_lesson.add_to(table);
  const std::vector<const char*> argv = pointers(flags);
  parse_command_line(app, static_cast<int>(argv.size()), argv.data());
  return {lesson.name, saved_flags(table), names_of(app)};
}

using Reader = std::function<Read(const Flags&, size_t num_ranks)>;

std::vector<Reader> readers() {
  std::vector<Reader> readers =
      testing::of_all_trainers([]<class T>() { return Reader(read_trainer<T>); });
  readers.push_back([](const Flags& flags, size_t) {
    return read_other<CollectiveFlags>(kCollectivesLesson, flags);
  });
  readers.push_back(
      [](const Flags& flags, size_t) { return read_other<PlanFlags>(kPlanningLesson, flags); });
  return readers;
}

std::filesystem::path root() {
  const char* const runfiles = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  REQUIRE((runfiles != nullptr && workspace != nullptr));
  return std::filesystem::path(runfiles) / workspace;
}

// The ranks of the command in the first lines of an example, which one of the lesson's pages has,
// too.
size_t ranks_of_example(const std::string& folder) {
  const std::string example = text_of(root() / folder / "example.toml");
  static const std::regex kCommand(
      R"(#   (tools/run [0-9a-z_]+( -n (\d+))? --config [0-9a-z_/]+/example\.toml)\n)");
  std::smatch match;
  REQUIRE(std::regex_search(example, match, kCommand));
  const std::string pages =
      text_of(root() / folder / "README.md") + text_of(root() / folder / "reference.md");
  const std::string command = match[1];
  CHECK_THAT(pages, ContainsSubstring("`" + command + "`"));
  CHECK_THAT(command, ContainsSubstring(folder));
  return match[3].matched ? std::stoul(match[3]) : 1;
}

TEST_CASE("every lesson has an example that its page runs, and all of its flags exist") {
  for (const Reader& read : readers()) {
    const std::string folder = "lessons/" + read({}, 4).name;
    CAPTURE(folder);
    const size_t num_ranks = ranks_of_example(folder);
    const Flags example = {"--config", root() / folder / "example.toml"};
    CHECK(read(example, num_ranks).saved != read({}, num_ranks).saved);
  }
}

TEST_CASE("a run with the flags that another one has saved saves the same") {
  const TestFolder folder;
  for (const Reader& read : readers()) {
    const std::string lesson = read({}, 4).name;
    CAPTURE(lesson);
    const std::string example = root() / "lessons" / lesson / "example.toml";
    const size_t num_ranks = ranks_of_example("lessons/" + lesson);
    for (const Flags& flags : {Flags{}, Flags{"--config", example}}) {
      const Read first = read(flags, num_ranks);
      CAPTURE(first.saved);
      const std::string file = folder.write("saved", first.saved);
      CHECK(read({"--config", file}, num_ranks).saved == first.saved);
    }
  }
}

TEST_CASE("flags of every kind are saved as they are read: the given, the resolved, the defaults") {
  const TestFolder folder;
  const Flags flags = {"--model",
                       "nano",
                       "--learning-rate",
                       "0.00123456789012",
                       "--prompt",
                       "a, 'b' c",
                       "--no-reshard-after-forward",
                       "--keep-embedding",
                       "--device-memory",
                       "64MiB",
                       "--data",
                       "x.bin,y z.bin",
                       "--checkpoint",
                       "c",
                       "--resume"};
  const Read first = read_trainer<Zero3Trainer>(flags, 2);
  for (const std::string line :
       {"layers = 2", "learning-rate = 0.00123456789012", "min-learning-rate = 0.000123456789012",
        "warmup-steps = 10", "micro-batch-size = 8", "prompt = \"a, 'b' c\"",
        "no-reshard-after-forward = true", "keep-embedding = true", "device-memory = 67108864",
        "data = \"x.bin,y z.bin\"", "resume = true", "steps = 200", "beta2 = 0.95"}) {
    CHECK_THAT(first.saved, ContainsSubstring("\n" + line + "\n"));
  }
  // "None" is no value, and a flag that needs another one has no default without it.
  for (const std::string name :
       {"\ncheckpoint-every", "\nhost-memory", "\nconfig", "\nsave-config"}) {
    CHECK(first.saved.find(name) == std::string::npos);
  }
  const Flags again = {"--config", folder.write("saved", first.saved)};
  CHECK(read_trainer<Zero3Trainer>(again, 2).saved == first.saved);
  for (const std::string prompt : {"a # b", "a\nb"}) {
    CHECK_THROWS_WITH(read_trainer<Zero3Trainer>({"--prompt", prompt}, 2),
                      StartsWith("--save-config: the value of --prompt cannot stand"));
  }
}

// A shell variable that is not set makes an empty value.
TEST_CASE("no flag of any lesson takes an empty value, on the command line or in a file") {
  const TestFolder folder;
  std::set<std::string> seen;
  for (const Reader& read : readers()) {
    const Read lesson = read({}, 4);
    for (const std::string& flag : lesson.all) {
      CAPTURE(lesson.name, flag);
      const std::string message = flag + ": its value is empty; see --help";
      CHECK_THROWS_WITH(read({flag, ""}, 4), message);
      if (!seen.insert(flag).second) continue;
      CHECK_THROWS_WITH(read({flag + "="}, 4), message);
      const std::string name = flag.substr(2), file = folder.write("flags", name + " = \"\"\n");
      CHECK_THROWS_WITH(read({"--config", file}, 4),
                        EndsWith(": line 1: the value of " + name + " is empty; see --help"));
    }
  }
}

// Of the rows of tables the last cell, which has our flags.
TEST_CASE("each of our flags that the table of other programs' flags names exists") {
  std::set<std::string> all;
  for (const Reader& read : readers()) all.merge(read({}, 4).all);
  std::istringstream page(text_of(root() / "notes/flags.md"));
  const std::regex flag(R"(--[a-z][a-z0-9-]*)");
  size_t num_named = 0;
  for (std::string line; std::getline(page, line);) {
    for (auto i = std::sregex_iterator(line.begin(), line.end(), flag); i != std::sregex_iterator();
         ++i) {
      INFO(i->str() << " in: " << line);
      CHECK(all.contains(i->str()));
      ++num_named;
    }
    if (line.starts_with("| `") || line.starts_with("| |")) {
      const auto bars = std::ranges::count(line, '|');
      CHECK((bars == 7 || bars == 3));  // the table of other spellings has two columns
    }
  }
  CHECK(num_named > 60);
}

}  // namespace
}  // namespace ladder
