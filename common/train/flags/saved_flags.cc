#include "common/train/flags/saved_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/io/text.h"
#include "common/model/family.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/command_line.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// So begins every file that --save-config writes.
constexpr std::string_view kBegin = "# Flags of ";

// Returns whether a default is that of a flag which nobody has given a meaning. Lists, which CLI11
// writes as [1,2], all have such defaults, and so has a limit that is infinite.
bool means_none(const std::string& value) {
  return value == "not given" || value == "0" || value == "false" || value == "inf" ||
         value.starts_with('[');
}

// Returns the value as it stands in a file. A number or a word is what it is, as in TOML.
std::string written(const std::string& value) {
  const bool is_number = value.find_first_not_of("0123456789.e+-") == value.npos;
  if ((is_number && !value.empty()) || value == "true" || value == "false") return value;
  const char quote = value.find('"') == value.npos ? '"' : '\'';
  return concat(quote, value, quote);
}

// Returns the value with which a file gives an option what it has. A flag without a value is true
// in a file, also one such as --no-overlap{false}, which makes its variable false.
std::string given_value(const CLI::Option& option) {
  if (option.get_expected_max() > 0) return CLI::detail::join(option.results(), ",");
  const bool is_on =
      option.get_flag_value(option.get_name().substr(2), "true") == option.results().back();
  return is_on ? "true" : "false";
}

// Returns what a program reads from a line; an empty text if it cannot be read.
std::string read_back(const CLI::App& app, const std::string& line) try {
  std::istringstream in(line);
  const std::vector<CLI::ConfigItem> items = app.get_config_formatter()->from_config(in);
  return items.size() == 1 ? CLI::detail::join(items[0].inputs, ",") : "";
} catch (const CLI::ConfigError&) {
  return "";
}

// Throws UserError if the file at the path was not written by --save-config, or is that of
// --config.
void require_replaceable(CLI::App& app, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const CLI::Option* const read = app.get_config_ptr();
  if (read->count() > 0 && std::filesystem::equivalent(path, read->as<std::string>(), error)) {
    throw UserError(concat(path, ": the flags are read from it; name another file"));
  }
  if (InputFile(path).text(0, kBegin.size()) == kBegin) return;
  throw UserError(concat(path, ": is there, and no run has saved its flags in it; name another"));
}

}  // namespace

std::map<std::string, std::string> resolved_sizes(const RunConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  std::map<std::string, std::string> flags = {
      {"--layers", concat(config.model.num_layers)},
      {"--heads", concat(config.model.num_heads)},
      {"--hidden", concat(config.model.hidden)},
      {"--vocab", concat(config.model.vocab_size)},
      {"--sequence-length", concat(config.model.sequence_length)},
      {"--micro-batch-size", concat(config.micro_batch_size)},
      {"--learning-rate", shortest_text(optimizer.learning_rate)},
      {"--min-learning-rate", shortest_text(optimizer.min_learning_rate)},
      {"--warmup-steps", concat(optimizer.warmup_steps)}};
  if (config.model.ffn > 0) flags["--ffn"] = concat(config.model.ffn);
  if (config.model.untied) flags["--untied"] = "true";
  for (const auto& [choice, value] : chosen(config.model)) flags[choice->flag()] = value;
  return flags;
}

std::map<std::string, std::string> resolved_flags(const RunConfig& config) {
  std::map<std::string, std::string> flags = resolved_sizes(config);
  flags["--threads"] = concat(config.threads);
  flags["--device"] = name_of(config.device);
  flags["--sample"] = concat(config.sample_tokens);
  return flags;
}

std::string saved_flags(CLI::App& app, const std::map<std::string, std::string>& resolved) {
  std::string text = concat(kBegin, app.get_name(), ", for --config.\n");
  for (const auto& [name, value] : settings_of_flags(app)) {
    const CLI::Option& option = *app.get_option(name);
    const auto found = resolved.find(name);
    const std::string now = found != resolved.end() ? found->second
                            : option.count() > 0    ? given_value(option)
                                                    : value;
    const auto needs = option.get_needs();
    const bool is_of_use =
        std::ranges::all_of(needs, [](auto* other) { return other->count() > 0; });
    const bool is_default = found == resolved.end() && option.count() == 0;
    if (is_default && (means_none(value) || !is_of_use)) continue;
    const std::string line = concat(name.substr(2), " = ", written(now), "\n");
    if (read_back(app, line) != now) {
      throw UserError(
          concat(kSaveFlag, ": the value of ", name,
                 " cannot stand in a file of flags: leave out #, line ends and quotes"));
    }
    text += line;
  }
  return text;
}

void save_flags(CLI::App& app, const std::map<std::string, std::string>& resolved) {
  const std::string path = saved_path(app);
  if (path.empty()) return;
  const std::string text = saved_flags(app, resolved);
  named_by(kSaveFlag, [&] {
    require_replaceable(app, path);
    PartialFile file(path);
    file.write(text);
    file.commit();
  });
}

}  // namespace ladder
