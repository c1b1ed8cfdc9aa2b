#include "common/train/flags/alike.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "common/io/file.h"
#include "common/io/text.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/inputs.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/hash.h"

namespace ladder {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();
// Data may be much larger than memory, so only a part of each file is compared.
constexpr size_t kMostOfData = size_t{16} << 20;

// Returns a hash of at most `most` bytes of a file, in pieces spread evenly from the first byte to
// the last.
uint64_t hash_of_file(const InputFile& file, size_t most) {
  constexpr size_t kSampleBytes = 4096;
  const size_t size = file.size();
  uint64_t hash = size;
  const auto add = [&](size_t begin, size_t count) {
    const std::string bytes = file.text(begin, count);
    hash = hash_bytes(std::as_bytes(std::span(bytes)), hash);
  };
  if (size <= most) {
    for (size_t begin = 0; begin < size; begin += kMostOfData) add(begin, kMostOfData);
    return hash;
  }
  const size_t num_samples = most / kSampleBytes;
  for (size_t i = 0; i < num_samples; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(num_samples - 1);
    const auto begin = static_cast<size_t>(part * static_cast<double>(size - kSampleBytes));
    add(std::min(begin, size - kSampleBytes), kSampleBytes);
  }
  return hash;
}

struct Input {
  const char* flag;
  std::string path;
  size_t most;  // bytes of it that are compared
};

std::vector<Input> inputs_of(const RunConfig& config, const Corpus& corpus) {
  std::vector<Input> inputs;
  for (const std::string& file : init_files(config)) inputs.push_back({"--init", file, kAll});
  for (const std::string& file : adapter_files(config)) {
    inputs.push_back({"--init-adapter", file, kAll});
  }
  for (const std::string& file : corpus.files()) {
    inputs.push_back({data_flag(config), file, config.has_examples() ? kAll : kMostOfData});
  }
  // It makes the tokens of examples. Those of --data have theirs already.
  const bool encodes = config.has_examples() && !config.tokenizer.empty();
  if (encodes) inputs.push_back({"--tokenizer", config.tokenizer, kAll});
  return inputs;
}

// Returns a text that only this file of this machine has. It changes when the file is written.
std::string stamp_of(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return "?";
  return concat(path, " ", status.st_dev, " ", status.st_ino, " ", status.st_size, " ",
                status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec, "\n");
}

}  // namespace

std::string identity_of(const Corpus& corpus) {
  uint64_t hash = 0;
  for (const std::string& path : corpus.files()) {
    const uint64_t of_file = hash_of_file(InputFile(path), kMostOfData);
    hash = hash_bytes(std::as_bytes(std::span(&of_file, 1)), hash);
  }
  const std::string text = concat(corpus.num_tokens(), " tokens");
  return corpus.files().empty() ? text + " of the built-in text"
                                : concat(text, " with hash ", format("%016lx", hash));
}

std::vector<Setting> settings_of_program(const char* lesson, int argc, const char* const* argv) {
  // Returns whether a flag is given that ends the program before it runs.
  const auto asked = [&](const char* flag, const char* short_flag) {
    const bool found = std::any_of(argv, argv + argc, [&](const std::string& argument) {
      return argument == flag || argument == short_flag;
    });
    return found ? "asked for" : "not asked for";
  };
  const uint64_t build = hash_of_file(InputFile("/proc/self/exe"), kAll);
  return {{"the lesson", lesson},
          {concat("the build of ", lesson), format("%016lx", build)},
          {"--help", asked("--help", "-h")},
          {"--version", asked("--version", "--version")}};
}

std::vector<Setting> settings_of_flags(CLI::App& app) {
  std::vector<Setting> settings;
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    // What a file of flags cannot give ends the program, or names the file.
    if (!option->get_configurable() || name == kSaveFlag) continue;
    const std::string shown_by_help = option->get_default_str();
    option->capture_default_str();  // of the variable, as it is now
    std::string value = option->get_default_str();
    option->default_str(shown_by_help);
    if (value.empty()) value = CLI::detail::join(option->results(), ",");
    // CLI11 writes six digits.
    const bool is_real = option->get_type_name() == "FLOAT" && option->count() == 1;
    if (is_real) value = shortest_text(option->as<double>());
    settings.push_back({name, value.empty() ? "not given" : value});
  }
  return settings;
}

std::map<std::string, FlagValue> flag_values(FlagTable& flags,
                                             const std::vector<Setting>& defaults) {
  std::map<std::string, FlagValue> values;
  const std::vector<Setting> now = settings_of_flags(flags.app());
  for (size_t i = 0; i < now.size(); ++i) {
    values[now[i].name] = {now[i].value, now[i].value == defaults.at(i).value,
                           flags.traits(now[i].name)};
  }
  return values;
}

void require_same_program(const Job& job, const char* lesson, int argc, const char* const* argv) {
  if (job.size() > 1) job.require_same(settings_of_program(lesson, argc, argv));
}

void require_same_flags(const Job& job, CLI::App& app) {
  if (job.size() > 1) job.require_same(settings_of_flags(app));
}

void require_same_inputs(const Job& job, const RunConfig& config, const Corpus& corpus) {
  if (job.size() == 1) return;
  const std::vector<Input> inputs = inputs_of(config, corpus);
  std::string identities;
  for (const Input& input : inputs) identities += stamp_of(input.path);
  const bool one_machine = job.node_size() == job.size();
  if (one_machine && job.all_same(identities)) return;
  std::vector<Setting> settings = {
      {concat("files of --init and ", data_flag(config)), concat(inputs.size())}};
  for (const Input& input : inputs) {
    const InputFile file(input.path, input.flag);
    settings.push_back({concat(input.flag, " ", input.path),
                        concat(file.size(), " bytes with hash ",
                               format("%016lx", hash_of_file(file, input.most)))});
  }
  job.require_same(settings);
}

}  // namespace ladder
