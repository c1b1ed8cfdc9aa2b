#include "common/train/flags/command_line.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/terminal.h"
#include "common/io/unexpected.h"
#include "common/io/version.h"
#include "common/train/flags/validators.h"

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

std::string help_footer(const std::string& lesson, size_t ranks) {
  const std::string folder = concat("lessons/", lesson, "/");
  return concat("Example: tools/run ", lesson, ranks > 0 ? concat(" -n ", ranks) : "", " --config ",
                folder, "example.toml\nPage: ", folder, "README.md");
}

namespace {

// Says which flags the file gives, and which of them the command line gives, too.
std::string note_of(const CLI::App& app, const std::string& path, int argc,
                    const char* const* argv) {
  std::ifstream in(path);
  std::string used, overruled;
  for (const CLI::ConfigItem& item : app.get_config_formatter()->from_config(in)) {
    const std::string flag = "--" + item.name;
    const bool is_given = std::any_of(argv, argv + argc, [&](const std::string& word) {
      return word == flag || word.starts_with(flag + "=");
    });
    std::string& list = is_given ? overruled : used;
    list += concat(list.empty() ? "" : ", ", item.name);
  }
  return concat("  flags    from ", one_line(path), ": ", used.empty() ? "none" : one_line(used),
                overruled.empty() ? "" : "; the command line overrules ", one_line(overruled),
                "\n");
}

}  // namespace

FlagsFile parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  CLI::Option* const config =
      app.set_config("--config", "", "Read flags from this file: lines such as `steps = 100`")
          ->check(CLI::Validator(flags_file_fault, ""));
  app.add_option(kSaveFlag, "Write the flags of this run to a file for --config")->check(path());
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_version_flag(app);
  require_decimal(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CLI::Success(help_text(app), CLI::ExitCodes::Success);
  } catch (const CLI::CallForVersion& version) {
    throw CLI::Success(concat(version.what(), "\n"), CLI::ExitCodes::Success);
  } catch (const CLI::Success&) {  // a flag's value asks for a text
    throw;
  } catch (const CLI::ConfigError& error) {
    throw UserError(config_fault(app, config->as<std::string>(), error.what()));
  } catch (const CLI::ExtrasError&) {
    throw UserError(unexpected_text(app));
  } catch (const CLI::ParseError& error) {
    // A flag that is misspelled may be the one that another one needs.
    const bool has_unknown_flag = std::ranges::any_of(
        app.remaining(true), [](const std::string& word) { return word.starts_with('-'); });
    if (!app.get_allow_extras() && has_unknown_flag) throw UserError(unexpected_text(app));
    throw UserError(flag_fault(error.what()) + "; see --help");
  }
  if (config->empty()) return {};
  const std::string path = config->as<std::string>();
  return {path, note_of(app, path, argc, argv)};
}

std::string saved_path(const CLI::App& app) {
  const CLI::Option& option = *app.get_option(kSaveFlag);
  return option.empty() ? "" : option.as<std::string>();
}

}  // namespace ladder
