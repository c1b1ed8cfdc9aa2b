// Which flags a run that resumes compares with those of the run that wrote the checkpoint: all of
// every lesson, but for those whose rows say why not.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <set>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "common/train/flags/settings.h"
#include "common/train/program/program.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/lessons/all_trainers.h"

namespace ladder {
namespace {

using Flags = std::vector<std::string>;

// What two runs compare.
struct Compared {
  std::map<std::string, std::string> settings;
  ModelConfig model;
  std::string layout;
  std::vector<double> others;  // which no resumed run compares
};

using MakeProgram = Program (*)();

std::vector<MakeProgram> programs() {
  return testing::of_all_trainers(
      []<class T>() -> MakeProgram { return [] { return make_program<T>(); }; });
}

struct Row {
  std::string heading;  // in --help
  ComparedBy compared;
};

// The flags of a lesson.
std::map<std::string, Row> flags_of(MakeProgram make) {
  const Program program = make();
  Options options(program.lesson, program.add_flags);
  std::map<std::string, Row> flags;
  for (const CLI::Option* option : options.app().get_options()) {
    const std::string name = option->get_name();
    flags[name] = {option->get_group(), options.table().traits(name).compared.value()};
  }
  flags.erase("--help");
  return flags;
}

// What a run of the lesson with these flags on so many ranks compares; nothing if it is refused.
std::optional<Compared> compared(MakeProgram make, const Flags& flags, size_t num_ranks) {
  static const Corpus built_in = Corpus::king_james();
  const Program program = make();
  std::vector<const char*> argv = {program.lesson.name};
  for (const std::string& flag : flags) argv.push_back(flag.c_str());
  Options options(program.lesson, program.add_flags);
  try {
    options.parse(static_cast<int>(argv.size()), argv.data());
    const ProcessGrid grid = program.grid(program.lesson.is_distributed ? num_ranks : 1, 0);
    RunConfig config = options.resolve(grid);
    if (program.adjust) program.adjust(config);
    const auto settings = config.data.empty() ? settings_of(config, built_in)
                                              : settings_of(config, Corpus::open(config.data));
    const std::vector<double> others = {config.temperature,
                                        static_cast<double>(config.top_k),
                                        static_cast<double>(config.evaluate_every),
                                        static_cast<double>(config.evaluate_batches),
                                        static_cast<double>(config.checkpoint.every),
                                        static_cast<double>(config.checkpoint.keep)};
    return Compared{settings, config.model, layout_text(grid), others};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

bool differ(const Compared& a, const Compared& b, const std::string& flag, ComparedBy by) {
  const auto has_setting = [&](const Compared& run) { return run.settings.contains(flag); };
  if (by == ComparedBy::model) return !(a.model == b.model);
  if (by == ComparedBy::layout) return a.layout != b.layout;
  if (!has_setting(a) || !has_setting(b)) return has_setting(a) || has_setting(b);
  return a.settings.at(flag) != b.settings.at(flag);
}

// Whether some value of the flag makes two runs differ. Of most flags one of these values will do;
// a few need others beside them, or another number of ranks.
bool shows(MakeProgram make, const std::string& flag, ComparedBy by, const std::string& text_file) {
  // These are given together or not at all.
  const Flags block = {"--norm", "rmsnorm", "--positions", "rotary",
                       "--mlp",  "swiglu",  "--biases",    "none"};
  if (std::ranges::count(block, flag) > 0) {
    const std::optional<Compared> usual = compared(make, {}, 4), other = compared(make, block, 4);
    return usual && other && differ(*usual, *other, flag, by);
  }
  const std::string device(name_of(cuda_device_of_build()));
  const Flags values = {"",           "1",
                        "2",          "3",
                        "4",          "0",
                        "0.5",        "16",
                        "64",         "fp16",
                        "fp64",       "int8",
                        "gpt2",       "nccl",
                        "cpu",        device,
                        "gpipe",      "keep",
                        "contiguous", "data",
                        "ulysses",    "1,2,1",
                        "1,1,1,1,1",  "optimizer",
                        text_file,    "llama3:8,1,4,64",
                        "rmsnorm",    "last-1",
                        "rslora",     "proj",
                        "masked",     "red,blue",
                        "muon",       "adamw",
                        "sgd",
                        "spectral",   "together"};
  const std::vector<Flags> besides = {
      {},
      {"--dtype", "bf16"},
      {"--model", "tiny-llama"},
      {"--train", "lora", "--optimizer", "adamw"},
      {"--optimizer", "muon"},
      {"--optimizer", "sgd"},
      {"--optimizer", "sgd", "--momentum", "0.9"},
      {"--device", device},
      {"--tensor-parallel-size", "2", "--sequence-parallel"},
      {"--tensor-parallel-size", "2"},
      {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"}};
  for (const size_t num_ranks : {4, 1}) {
    for (const Flags& beside : besides) {
      const std::optional<Compared> usual = compared(make, beside, num_ranks);
      for (const std::string& value : values) {
        Flags flags = beside;
        flags.push_back(flag);
        if (!value.empty()) flags.push_back(value);
        // Some sizes of the layout are always the number of ranks.
        for (const size_t others : {num_ranks, by == ComparedBy::layout ? size_t{2} : num_ranks}) {
          const std::optional<Compared> other = compared(make, flags, others);
          if (usual && other && differ(*usual, *other, flag, by)) return true;
        }
      }
    }
  }
  return false;
}

// The default that --help names, "[16]", of a flag whose value is a word or a number.
std::string named_default(const CLI::Option& option) {
  const std::string& text = option.get_description();
  const size_t begin = text.rfind('[');
  if (begin == text.npos || !text.ends_with(']')) return "";
  const std::string value = text.substr(begin + 1, text.size() - begin - 2);
  return value.find_first_of(" ;") == value.npos ? value : "";
}

TEST_CASE("the default that --help names is what a run has without the flag") {
  const std::vector<Flags> besides = {
      {}, {"--train", "lora"}, {"--optimizer", "muon"}, {"--sample", "1"}};
  size_t num_compared = 0;
  for (const MakeProgram make : programs()) {
    std::vector<std::optional<Compared>> usual;
    for (const Flags& beside : besides) usual.push_back(compared(make, beside, 4));
    const Program program = make();
    Options options(program.lesson, program.add_flags);
    for (const CLI::Option* option : options.app().get_options()) {
      const std::string flag = option->get_name(), value = named_default(*option);
      if (value.empty()) continue;
      for (size_t i = 0; i < besides.size(); ++i) {  // some flags are refused without another
        if (std::ranges::count(besides[i], flag) > 0) continue;
        Flags given = besides[i];
        given.insert(given.end(), {flag, value});
        std::optional<Compared> other = compared(make, given, 4);
        if (!usual[i] || !other) continue;
        // A flag that is given is a setting even if it has its default.
        if (!usual[i]->settings.contains(flag)) other->settings.erase(flag);
        CAPTURE(program.lesson.name, flag, value);
        CHECK(usual[i]->settings == other->settings);
        CHECK(usual[i]->model == other->model);
        CHECK(usual[i]->layout == other->layout);
        CHECK(usual[i]->others == other->others);
        ++num_compared;
        break;
      }
    }
  }
  CHECK(num_compared > 400);
}

// A flag that is added to a lesson and not compared fails here.
TEST_CASE("a run that resumes compares every flag of every lesson, or nothing depends on it") {
  const bool has_device = num_devices(cuda_device_of_build()) > 0;
  const TestFolder folder;
  const std::string text_file = folder.write("text", std::string(5000, 'x'));
  const std::set<std::string> headings_without_settings = {
      "Output",        "Sampling",       "Checkpoints", "Memory",
      "Between ranks", "Virtual device", "Elastic",     "Muon"};
  std::set<std::string> names;
  for (const MakeProgram make : programs()) {
    const std::string lesson = make().lesson.name;
    for (const auto& [flag, row] : flags_of(make)) {
      names.insert(flag);
      const bool is_of_devices =
          flag == "--device" || flag == "--communication" || flag.starts_with("--nccl-");
      if (!has_device && is_of_devices) continue;
      const ComparedBy by = row.compared;
      if (by == ComparedBy::nothing) {
        CAPTURE(flag, row.heading);
        CHECK((headings_without_settings.contains(row.heading) || flag == "--init" ||
               flag == "--init-adapter"));
        continue;
      }
      // What has no 16 bits refuses it.
      const bool is_full = make().lesson.precisions == Precisions::full;
      if (flag == "--round-logits" && is_full) continue;
      const bool is_of_muon = flag.starts_with("--muon");
      if (is_of_muon && !make().lesson.gives_matrices) continue;
      // It needs a GPU, 16 bits and cuDNN, and without them is refused.
      if (flag == "--attention-kernel") continue;
      CAPTURE(lesson, flag);
      CHECK(shows(make, flag, by, text_file));
    }
  }
  CHECK(names.size() > 90);
}

}  // namespace
}  // namespace ladder
