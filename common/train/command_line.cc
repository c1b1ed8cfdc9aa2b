#include "common/train/command_line.h"

#include <limits>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/io/unexpected.h"
#include "common/io/version.h"
#include "common/train/validators.h"

namespace ladder {
namespace {

// Makes numbers decimal for all flags of the app. CLI11 itself reads 010 as 8, 0x10 as 16 and 0x1p3
// as 8.
void require_decimal(CLI::App& app) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (CLI::Option* option : app.get_options()) {
    // These are CLI11's names for the types of numbers. byte_size() runs before this check, so
    // 64MiB is a plain number by now.
    const std::string type = option->get_type_name();
    if (type == "INT" || type == "UINT") option->check(decimal());
    if (type == "FLOAT") option->check(real(-kLargest, kLargest));
  }
}

// Says what is wrong with the path of --config. CLI11 would wait for the end of a pipe, and read a
// file of any size into memory.
std::string flags_file_fault(std::string& path) {
  constexpr size_t kMaxBytes = 1 << 20;
  if (path.empty()) return "the path is empty";
  try {
    const size_t size = InputFile(path).size();
    if (size > kMaxBytes) return concat(path, ": ", size, " bytes are too many for flags");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Says in clearer words what CLI11 says of a flag that has no value or is given twice.
std::string flag_fault(const std::string& text) {
  const std::string flag = text.substr(0, text.find(": "));
  const std::string too_many = ": At Most 1 required but received ";
  if (text.ends_with(" missing")) return flag + ": its value is missing";
  if (!text.starts_with(flag + too_many)) return text;
  return concat(flag, ": given ", text.substr(flag.size() + too_many.size()),
                " times, expected once");
}

// Says in clearer words what CLI11 says of the file of --config, which it calls an INI.
std::string config_fault(const CLI::App& app, const std::string& path, const std::string& text) {
  const std::string unknown = "INI was not able to parse ";
  if (!text.starts_with(unknown)) return concat("--config ", path, ": ", text, "; see --help");
  const std::string name = text.substr(unknown.size()), meant = meant_flag(app, name);
  return concat("--config ", path, ": no such flag: ", name,
                meant.empty() ? "; see --help" : concat("; did you mean ", meant, "?"));
}

}  // namespace

std::string parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  CLI::Option* const config =
      app.set_config("--config", "", "Read flags from this file: lines such as `steps = 100`")
          ->check(CLI::Validator(flags_file_fault, ""));
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_version_flag(app);
  require_decimal(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CLI::Success(app.help(), CLI::ExitCodes::Success);
  } catch (const CLI::CallForVersion& version) {
    throw CLI::Success(concat(version.what(), "\n"), CLI::ExitCodes::Success);
  } catch (const CLI::ConfigError& error) {
    throw UserError(config_fault(app, config->as<std::string>(), error.what()));
  } catch (const CLI::ParseError& error) {
    // A flag that is misspelled may be the one that another one needs.
    if (!app.get_allow_extras() && !app.remaining(true).empty())
      throw UserError(unexpected_text(app));
    throw UserError(flag_fault(error.what()) + "; see --help");
  }
  return config->empty() ? "" : config->as<std::string>();
}

}  // namespace ladder
