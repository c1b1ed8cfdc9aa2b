#include "common/train/command_line.h"

#include <limits>

#include "common/io/file.h"
#include "common/io/path.h"
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
    const size_t size = MappedFile(path).bytes().size();
    if (size > kMaxBytes) return concat(path, ": ", size, " bytes are too many for flags");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Names the arguments that nothing understands, as in "no such flag: --stepz" or "words that belong
// to no flag: train".
std::string unexpected(const CLI::App& app) {
  std::string flags, words;
  for (const std::string& word : app.remaining()) {
    std::string& list = word.starts_with('-') ? flags : words;
    list += (list.empty() ? "" : " ") + word;
  }
  return flags.empty() ? "words that belong to no flag: " + words : "no such flag: " + flags;
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
std::string config_fault(const std::string& path, std::string text) {
  const std::string unknown = "INI was not able to parse ";
  if (text.starts_with(unknown)) {
    text.replace(0, unknown.size(), "no such flag: ");
  }
  return concat("--config ", path, ": ", text);
}

}  // namespace

std::string parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  CLI::Option* const config =
      app.set_config("--config", "", "Read flags from this file: lines such as `steps = 100`")
          ->check(CLI::Validator(flags_file_fault, ""));
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_version_flag(app);
  require_decimal(app);
  const auto refuse = [](const std::string& why) { throw UserError(why + "; see --help"); };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CLI::Success(app.help(), CLI::ExitCodes::Success);
  } catch (const CLI::CallForVersion& version) {
    throw CLI::Success(concat(version.what(), "\n"), CLI::ExitCodes::Success);
  } catch (const CLI::ExtrasError&) {
    refuse(unexpected(app));
  } catch (const CLI::ConfigError& error) {
    refuse(config_fault(config->as<std::string>(), error.what()));
  } catch (const CLI::ParseError& error) {
    refuse(flag_fault(error.what()));
  }
  return config->empty() ? "" : config->as<std::string>();
}

}  // namespace ladder
