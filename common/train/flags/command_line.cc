#include "common/train/flags/command_line.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/terminal.h"
#include "common/io/text.h"
#include "common/io/unexpected.h"
#include "common/io/version.h"
#include "common/train/flags/validators.h"

namespace ladder {
namespace {

// Makes numbers decimal for all flags of the app, and switches true or false. CLI11 itself reads
// 010 as 8, 0x10 as 16 and 0x1p3 as 8, and a switch of 7 as true.
void require_plain(CLI::App& app) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (CLI::Option* option : app.get_options()) {
    // These are CLI11's names for the types of numbers. byte_size() runs before this check, so
    // 64MiB is a plain number by now.
    const std::string type = option->get_type_name();
    if (type == "INT" || type == "UINT") option->check(decimal());
    if (type == "FLOAT") option->check(real(-kLargest, kLargest));
    if (option->get_expected_max() == 0) option->check(true_or_false());
  }
}

// Says what is wrong with the path of --config. CLI11 would wait for the end of a pipe, and read a
// file of any size into memory.
std::string flags_file_fault(std::string& path) {
  constexpr size_t kMaxBytes = 1 << 20;
  try {
    const size_t size = InputFile(path).size();
    if (size > kMaxBytes) return concat(path, ": ", size, " bytes are too many for flags");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Reads a file of flags as CLI11 does, which takes any text for the name of a flag.
class FlagsFormat : public CLI::ConfigBase {
 public:
  // Throws ConfigError if a line cannot give a flag, or gives an empty value, or if two lines give
  // the same flag, of which CLI11 would take the first.
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    const std::string all(std::istreambuf_iterator<char>(in), {});
    std::istringstream lines{std::string(without_mark(all))};
    std::stringstream without_comments;  // after which CLI11 would not see the end of a list
    lines_.clear();
    std::string line;
    bool is_in_list = false;
    for (size_t number = 1; std::getline(lines, line); ++number) {
      const std::string code = trimmed(line.substr(0, line.find('#')));
      if (!is_in_list && !code.empty() && code[0] != ';') {
        is_in_list = value_in(code, number).starts_with('[');
      }
      is_in_list = is_in_list && !code.ends_with(']');
      without_comments << code << "\n";
    }
    if (is_in_list) throw CLI::ConfigError("the last list has no ]");
    for (const auto& [name, numbers] : lines_) {
      if (numbers.size() == 1) continue;
      throw CLI::ConfigError(
          concat("--", name, ": given ", numbers.size(), " times, expected once"));
    }
    return CLI::ConfigBase::from_config(without_comments);
  }
  // Returns "--config FILE, line 3: " for a flag or its name; an empty text if no line gives it.
  std::string position_of(const std::string& name, const std::string& path) const {
    const auto found = lines_.find(without_dashes(name));
    if (found == lines_.end()) return "";
    return concat("--config ", path, ", line ", found->second.front(), ": ");
  }

 private:
  static std::string trimmed(std::string text) { return CLI::detail::trim(text); }
  static std::string without_dashes(const std::string& name) {
    return name.substr(name.starts_with("--") ? 2 : 0);
  }
  std::string value_in(const std::string& code, size_t number) const {
    const size_t equals = std::min(code.find('='), code.size());
    const std::string name = trimmed(code.substr(0, equals)), value = code.substr(equals);
    const auto is_part = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
    if (name.empty() || !std::ranges::all_of(name, is_part)) {
      throw CLI::ConfigError(concat("line ", number, " is ", quoted_name(code),
                                    ", expected one such as `steps = 100`"));
    }
    lines_[without_dashes(name)].push_back(number);
    if (value.empty()) return "";
    const std::string given = trimmed(value.substr(1));
    if (!given.empty() && given != "\"\"" && given != "''" && given != "[]") return given;
    throw CLI::ConfigError(concat("line ", number, ": the value of ", name, " is empty"));
  }

  mutable std::map<std::string, std::vector<size_t>> lines_;  // by the names that they give
};

bool is_given(const std::string& flag, int argc, const char* const* argv) {
  return std::any_of(argv, argv + argc, [&](const std::string& word) {
    return word == flag || word.starts_with(flag + "=");
  });
}

// Says in clearer words what CLI11 says of the file of --config, which it calls an INI.
std::string config_fault(const CLI::App& app, const FlagsFormat& format, const std::string& path,
                         const std::string& text) {
  const std::string unknown = "INI was not able to parse ", flag = text.substr(0, text.find(": "));
  if (flag.starts_with("--")) return concat(format.position_of(flag, path), text, "; see --help");
  if (!text.starts_with(unknown)) return concat("--config ", path, ": ", text, "; see --help");
  const std::string name = text.substr(unknown.size()), meant = meant_flag(app, name);
  return concat(format.position_of(name, path), "no such flag: ", name,
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
    std::string& list = is_given(flag, argc, argv) ? overruled : used;
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
  app.add_option(kSaveFlag, "Write the flags of this run to a file for --config");
  app.allow_config_extras(CLI::config_extras_mode::error);
  const auto format = std::make_shared<FlagsFormat>();
  app.config_formatter(format);
  add_version_flag(app);
  require_plain(app);
  refuse_empty(argc, argv);
  // What is wrong with a value that the file gives is said with its line.
  const auto placed = [&](const std::string& text) {
    const std::string flag = text.substr(0, text.find_first_of(": "));
    if (config->empty() || is_given(flag, argc, argv)) return text;
    return format->position_of(flag, config->as<std::string>()) + text;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CLI::Success(help_text(app), CLI::ExitCodes::Success);
  } catch (const CLI::CallForVersion& version) {
    throw CLI::Success(concat(version.what(), "\n"), CLI::ExitCodes::Success);
  } catch (const CLI::Success&) {  // a flag's value asks for a text
    throw;
  } catch (const CLI::ConfigError& error) {
    throw UserError(config_fault(app, *format, config->as<std::string>(), error.what()));
  } catch (const CLI::ExtrasError&) {
    throw UserError(unexpected_text(app));
  } catch (const CLI::ParseError& error) {
    // A flag that is misspelled may be the one that another one needs.
    const bool has_unknown_flag = std::ranges::any_of(
        app.remaining(true), [](const std::string& word) { return word.starts_with('-'); });
    if (!app.get_allow_extras() && has_unknown_flag) throw UserError(unexpected_text(app));
    throw UserError(placed(fault_text(app, error)) + "; see --help");
  } catch (const UserError& error) {
    throw UserError(placed(error.what()));
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
