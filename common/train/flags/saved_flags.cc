#include "common/train/flags/saved_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/flag_table.h"
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

std::string saved_flags(FlagTable& flags, const RunConfig* config) {
  CLI::App& app = flags.app();
  std::string text = concat(kBegin, app.get_name(), ", for --config.\n");
  for (const auto& [name, value] : settings_of_flags(app)) {
    const CLI::Option& option = *app.get_option(name);
    const ValueInRun& in_run = flags.traits(name).in_run;
    std::string now = config != nullptr && in_run ? in_run(*config) : "";
    if (now.empty() && option.count() > 0) now = given_value(option);
    const auto needs = option.get_needs();
    const bool is_of_use =
        std::ranges::all_of(needs, [](auto* other) { return other->count() > 0; });
    if (now.empty() && (means_none(value) || !is_of_use)) continue;
    if (now.empty()) now = value;
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

void save_flags(FlagTable& flags, const RunConfig* config) {
  CLI::App& app = flags.app();
  const std::string path = saved_path(app);
  if (path.empty()) return;
  const std::string text = saved_flags(flags, config);
  named_by(kSaveFlag, [&] {
    require_replaceable(app, path);
    PartialFile file(path);
    file.write(text);
    file.commit();
  });
}

}  // namespace ladder
