// The flags of a program: a row for each, which says all that there is to know of it.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/io/text.h"
#include "common/train/trainer/config.h"

namespace ladder {

// FlagTable adds flags to CLI11's app, which parses them. These read it: --help, --save-config, the
// comparisons (of ranks with each other, and of a run that resumes with the one before), and the
// check of the files that flags name.
class FlagTable {
 public:
  explicit FlagTable(CLI::App& app) : app_(app) {}

  // The rows that follow stand under this heading of --help. `compared` says how a run that resumes
  // compares them, unless a row says otherwise.
  void heading(const std::string& name, ComparedBy compared = ComparedBy::value);

  // Adds a row: a flag that sets a variable, which must live until the app has parsed. A bool is a
  // switch. The help text ends with the default, in brackets. `check` may change the text that is
  // given.
  template <class T>
  CLI::Option* add(const std::string& name, T& value, const std::string& help,
                   FlagTraits traits = {}) {
    if constexpr (std::is_same_v<T, bool>) {
      return add_row(app_.add_flag(name, value, help), std::move(traits));
    } else {
      return add_row(app_.add_option(name, value, help), std::move(traits));
    }
  }
  template <class T>
  CLI::Option* add(const std::string& name, T& value, const std::string& help,
                   const CLI::Validator& check, FlagTraits traits = {}) {
    return add(name, value, help, std::move(traits))->transform(check);
  }
  // Adds a row for a flag whose value is given to a function.
  CLI::Option* add_function(const std::string& name,
                            const std::function<void(const std::string&)>& set,
                            const std::string& help, const CLI::Validator& check = {});
  // Adds a row for whole numbers from `least` to `most`, separated by commas, as in 5,3,3,1. In a
  // file of flags they may also be written [5, 3, 3, 1].
  CLI::Option* add_whole_list(const std::string& name, std::vector<size_t>& numbers,
                              const std::string& help, int64_t least, int64_t most);

  CLI::App& app() { return app_; }
  // Returns what the row of a flag says; of a flag that has none, what a row says by default.
  const FlagTraits& traits(const std::string& name) const;
  // Returns the files or folders that have this use, each with its flag, in the order of the rows.
  // REQUIRES: the app has parsed.
  std::vector<std::pair<std::string, std::string>> files(FileUse use) const;

 private:
  CLI::Option* add_row(CLI::Option* option, FlagTraits traits);

  CLI::App& app_;
  std::string heading_;  // empty: that of a program which needs none
  ComparedBy compared_ = ComparedBy::value;
  std::map<std::string, FlagTraits> rows_;
};

template <class T>
std::string value_text(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return shortest_text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(name_of(value));
  } else {
    return concat(value);
  }
}
// Return a function that reads this member of what a run has chosen.
template <class T>
ValueInRun in_run(T RunConfig::*member) {
  return [member](const RunConfig& config) { return value_text(config.*member); };
}
template <class T>
ValueInRun in_run(T ModelConfig::*member) {
  return [member](const RunConfig& config) { return value_text(config.model.*member); };
}
template <class T>
ValueInRun in_run(T OptimizerConfig::*member) {
  return [member](const RunConfig& config) { return value_text(config.optimizer.*member); };
}

}  // namespace ladder
