// Broken files and names, given to every flag that takes a value: what is said is one line in our
// words, and never in those of a library.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// Makes things in the folder that no program can read, and returns their names, as a user gives
// them.
std::vector<std::string> broken_things(const Scratch& folder) {
  const fs::path& path = folder.path();
  fs::create_symlink("loop", path / "loop");
  fs::create_symlink("nowhere", path / "dangling");
  fs::create_directory(path / "folder");
  fs::create_directory(path / "model");
  folder.write("model/config.json", R"({"model_type": "gpt2", "n_embd": [1e999]})");
  folder.write("model/tokenizer.json", R"({"model": {"vocab": {"a": "b"}}, "added_tokens": 3})");
  folder.write("model/model.safetensors", std::string(8, '\1'));
  REQUIRE(mkfifo((path / "pipe").c_str(), 0600) == 0);
  std::vector<std::string> things = {"loop",
                                     "loop/x",
                                     "dangling",
                                     "folder",
                                     "model",
                                     "model/tokenizer.json",
                                     "folder/x/y",
                                     "pipe",
                                     "/dev/null",
                                     "/proc",
                                     "a\x1b[31m\nb",
                                     "-1",
                                     "\xff\xfe",
                                     std::string(5000, 'n'),
                                     std::string(300, 'n') + "/x"};
  const std::vector<std::string> contents = {"",
                                             "{",
                                             "[]",
                                             "null",
                                             R"({"a": 1})",
                                             R"({"steps": 3})",
                                             "steps: 3\n- x\n",
                                             "\"",
                                             "x\ty\n",
                                             std::string(600, '\0'),
                                             "\x02\0\0\0\0\0\0\0{}",
                                             "\xef\xbb\xbf{}",
                                             "steps = 99999999999999999999\n",
                                             "untied = maybe\n",
                                             "[x]\nsteps = 1\n"};
  for (size_t i = 0; i < contents.size(); ++i) {
    things.push_back(concat("file", i, i % 2 == 0 ? ".json" : ".bin"));
    folder.write(things.back(), contents[i]);
  }
  return things;
}

// Fails the test if a library speaks, or more is said than one line.
void check_words(const ProcessResult& result) {
  CAPTURE(result.out, result.err);
  static const std::regex kRaw(
      R"(filesystem error|symlink_status|Could not convert|json\.exception|\.(cc|h|hpp):\d|std::|basic_|bad_|terminate)");
  CHECK_FALSE(result.timed_out);
  CHECK((result.status == 0 || result.status == 1 || result.status == 2));
  CHECK_FALSE(std::regex_search(result.out.substr(0, 20'000), kRaw));
  CHECK_FALSE(std::regex_search(result.err.substr(0, 20'000), kRaw));
  CHECK(std::ranges::count(result.err, '\n') == (result.status == 0 ? 0 : 1));
}

// The flags of a program that take a value.
std::vector<std::string> flags_of(const std::string& lesson) {
  const std::string help = run_process({lesson_path(lesson), "--help"}).out;
  static const std::regex kFlag(R"(\n  (--[a-z0-9-]+) [A-Z])");
  std::vector<std::string> flags = {"--config", "--save-config"};  // a text without a type
  for (auto i = std::sregex_iterator(help.begin(), help.end(), kFlag); i != std::sregex_iterator();
       ++i) {
    flags.push_back((*i)[1]);
  }
  return flags;
}

const Flags kShort = {"--model",          "nano", "--threads", "1", "--sample", "0",
                      "--evaluate-every", "0",    "--steps",   "1"};

// LADDER_CASES=10000 tries so many.
TEST_CASE("whatever is given to a flag, no library speaks") {
  const Scratch folder;
  const std::vector<std::string> things = broken_things(folder);
  const ProcessOptions options = {.folder = folder.path(), .time_limit = std::chrono::seconds(60)};
  const char* const given = std::getenv("LADDER_CASES");
  std::mt19937 random(64);
  const auto one_of = [&](const auto& list) { return list[random() % list.size()]; };
  const std::vector<std::string> all = flags_of("01_single_gpu");
  REQUIRE(all.size() > 60);
  // Of those that name files half of the runs, of all others the rest.
  const std::vector<std::string> files = {
      "--config",      "--save-config", "--init", "--init-adapter", "--task",
      "--data",        "--tokenizer",   "--dump", "--metrics",      "--trace",
      "--tensorboard", "--export",      "--draw", "--checkpoint",   "--cluster"};
  for (int i = 0; i < (given == nullptr ? 120 : std::atoi(given)); ++i) {
    const std::string flag = random() % 2 == 0 ? one_of(files) : one_of(all),
                      thing = one_of(things);
    Flags flags;
    for (size_t at = 0; at < kShort.size(); at += 2) {
      if (kShort[at] != flag) flags.insert(flags.end(), {kShort[at], kShort[at + 1]});
    }
    if (flag == "--init-adapter") flags.insert(flags.end(), {"--init", "model", "--train", "lora"});
    if (flag == "--cluster") flags.insert(flags.end(), {"--device", "virtual"});
    const bool in_file = flag != "--config" && random() % 3 == 0;
    if (in_file) folder.write("flags", concat(flag.substr(2), " = \"", thing, "\"\n"));
    if (in_file) flags.insert(flags.end(), {"--config", "flags"});
    if (!in_file) flags.push_back(concat(flag, "=", thing));
    CAPTURE(i, flag, thing.substr(0, 50), in_file);
    check_words(run_single_gpu(flags, options));
  }
}

TEST_CASE("what lesson 17's supervisor cannot start or make is said with its name") {
  const Scratch folder;
  const auto run = [&](const std::string& mpirun, const std::string& temporary) {
    return run_process(
        {lesson_path("17_elastic"), "--mpirun", mpirun, "--ranks", "2", "--steps", "1"},
        {.folder = folder.path(), .environment = {{"TMPDIR", temporary}}});
  };
  for (const std::string& thing : broken_things(folder)) {
    if (thing == "-1") continue;
    const std::string mpirun = "./" + thing;
    check_words(run(mpirun, folder.path()));
    check_words(run("mpirun", mpirun + "/x"));
  }
  check_user_error(run("/nope", "/tmp"), {"--mpirun /nope: cannot be started: No such file"});
  check_user_error(run("mpirun", "/nope"), {"TMPDIR /nope: no folder can be made in it: No such"});
}

TEST_CASE("lesson 00 does not draw over what it reads or writes") {
  const Scratch folder;
  const std::string flags = folder.write("flags", "collective = broadcast\n");
  const auto drawn = [&](const Flags& more) {
    return run_process(Flags{lesson_path("00_collectives"), "--draw", "./flags"} + more,
                       {.folder = folder.path()});
  };
  check_user_error(drawn({"--config", flags}), {"--draw ./flags and --config", "the same file"});
  check_user_error(drawn({"--save-config", flags}), {"--draw ./flags and --save-config"});
  CHECK(read_text(flags) == "collective = broadcast\n");
}

}  // namespace
}  // namespace ladder
