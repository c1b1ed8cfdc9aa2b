// What ranks compare before they do anything together.
#include "common/train/flags/alike.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <set>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr LessonInfo kLesson = {"00_test", "Tests flags."};

// A lesson's own flags: a number, a switch, names for numbers, a list.
struct LessonFlags {
  size_t number = 7;
  bool is_on = false;
  int kind = 0;
  std::vector<size_t> list = {};

  void add_to(FlagTable& flags) {
    flags.add("--number", number, "");
    flags.add("--on", is_on, "");
    flags.add("--kind", kind, "")
        ->transform(CLI::CheckedTransformer(std::map<std::string, int>{{"x", 0}, {"y", 1}}));
    flags.add("--list", list, "")->delimiter(',');
  }
};

using Values = std::map<std::string, std::string>;

// Names and values that are compared; nothing where the flags cannot be parsed.
std::optional<Values> settings_of(const std::vector<const char*>& flags) {
  std::vector<const char*> argv = {"00_test"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  LessonFlags own;
  Options options(kLesson, [&](FlagTable& table) { own.add_to(table); });
  try {
    options.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const UserError&) {
    return std::nullopt;
  }
  Values values;
  for (const auto& [name, value] : settings_of_flags(options.app())) values[name] = value;
  return values;
}

// All flags that there are.
std::set<std::string> names_of_flags() {
  std::set<std::string> names;
  LessonFlags own;
  Options options(kLesson, [&](FlagTable& table) { own.add_to(table); });
  for (const CLI::Option* option : options.app().get_options()) names.insert(option->get_name());
  return names;
}

// Which flags there are is not written down here, so none can be forgotten.
TEST_CASE("every flag is compared, and whatever is given to it shows") {
  const std::set<std::string> names = names_of_flags();
  CHECK(names.size() > 40);
  for (const std::string& name : names) {
    if (name == "--help" || name == "--config") continue;
    CAPTURE(name);
    // The other flags of checkpoints go with a folder.
    std::vector<const char*> always = {"--checkpoint", "folder"};
    if (name == "--checkpoint") always.clear();
    const Values usual = settings_of(always).value();
    REQUIRE(usual.contains(name));
    size_t num_shown = 0;
    for (const char* const value :
         {"", "3", "0.5", "y", "other", "block", "rmsnorm", "rotary", "swiglu", "none",
          "llama3:8,1,4,8192", "rslora", "masked", "muon", "spectral", "together"}) {
      std::vector<const char*> flags = always;
      flags.push_back(name.c_str());
      if (*value != 0) flags.push_back(value);
      const std::optional<Values> other = settings_of(flags);
      if (!other) continue;
      num_shown += other->at(name) != usual.at(name);
      for (const auto& [another, as_usual] : usual) {
        if (another != name) CHECK(other->at(another) == as_usual);
      }
    }
    CHECK(num_shown > 0);
  }
}

TEST_CASE("values are those that the flags have in the end") {
  CHECK(settings_of({}) == settings_of({"--number", "7"}));
  CHECK(settings_of({"--list", "1,2"})->at("--list") == "[1,2]");
  CHECK(settings_of({"--device-memory", "64KiB"})->at("--device-memory") == "65536");
  CHECK(settings_of({"--on"})->at("--on") == "true");
  CHECK(settings_of({})->at("--layers") == "not given");
}

TEST_CASE("the lesson, the build, --help and --version are compared before the flags are read") {
  const auto program = [](const char* lesson, std::vector<const char*> argv) {
    Values values;
    const auto settings = settings_of_program(lesson, static_cast<int>(argv.size()), argv.data());
    for (const auto& [name, value] : settings) values[name] = value;
    return values;
  };
  const Values plain = program("00_test", {"00_test", "--steps", "3"});
  CHECK(plain.at("the lesson") == "00_test");
  CHECK(plain.at("--help") == "not asked for");
  CHECK(plain.at("the build of 00_test").size() == 16);
  CHECK(program("00_test", {"00_test"}) == plain);
  CHECK(program("00_other", {"00_other"}).at("the lesson") == "00_other");
  CHECK(program("00_test", {"00_test", "-h"}).at("--help") == "asked for");
  CHECK(program("00_test", {"00_test", "--help"}).at("--help") == "asked for");
  CHECK(plain.at("--version") == "not asked for");
  CHECK(program("00_test", {"00_test", "--version"}).at("--version") == "asked for");
}

}  // namespace
}  // namespace ladder
