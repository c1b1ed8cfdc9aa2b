#include "common/io/unexpected.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/check.h"

// Lines of "theirs ours", from notes/flags.md: what other programs call a flag, and what it is
// called here. Some have two meanings.
extern "C" {
extern const char foreign_flags_begin[];
extern const uint64_t foreign_flags_bytes;
}

namespace ladder {
namespace {

using Names = std::vector<std::string>;

// Returns the name without the dashes before it, in small letters, with dashes between its words.
std::string plain(const std::string& name) {
  std::string text = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  for (char& c : text) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

// Returns how many letters have to be added, dropped, replaced or swapped with the next one to make
// one text of the other.
size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({above[j] + (a[i] == b[j] ? 0 : 1), above[j + 1] + 1, row[j] + 1});
      const bool is_swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (is_swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

// Returns the names that are spelled nearly as `word`: the only one that begins so, or the nearest,
// in which at most every third letter is another.
Names nearly(const std::string& word, const Names& known) {
  constexpr size_t kShortest = 3;
  Names found;
  if (word.size() < kShortest) return found;
  std::ranges::copy_if(known, std::back_inserter(found),
                       [&](const std::string& name) { return name.starts_with(word); });
  if (found.size() == 1) return found;
  found.clear();
  size_t fewest = word.size() / 3;
  for (const std::string& name : known) {
    const size_t edits = edits_between(word, name);
    if (edits > fewest) continue;
    if (edits < fewest) found.clear();
    fewest = edits;
    found.push_back(name);
  }
  return found;
}

// Returns the flags of the app and of the commands that were given, without dashes.
Names flags_of(const CLI::App& app) {
  Names flags;
  for (const CLI::Option* option : app.get_options()) {
    std::ranges::copy(option->get_lnames(), std::back_inserter(flags));
  }
  for (const CLI::App* command : app.get_subcommands()) {
    std::ranges::copy(flags_of(*command), std::back_inserter(flags));
  }
  return flags;
}

std::string either(const Names& names, const char* before) {
  std::string text;
  for (const std::string& name : names) text += concat(text.empty() ? "" : " or ", before, name);
  return text;
}

Names commands_of(const CLI::App& app) {
  Names commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  return commands;
}

}  // namespace

std::string meant_flag(const CLI::App& app, const std::string& name) {
  const Names flags = flags_of(app);
  const std::string word = plain(name);
  const auto has = [&](std::string_view flag) {
    return std::ranges::find(flags, flag) != flags.end();
  };
  if (has(word)) return "--" + word;
  Names found;
  std::istringstream foreign(std::string(foreign_flags_begin, foreign_flags_bytes));
  for (std::string theirs, ours; foreign >> theirs >> ours;) {
    if (theirs == word && has(ours)) found.push_back(ours);
  }
  return either(found.empty() ? nearly(word, flags) : found, "--");
}

std::string unexpected_text(const CLI::App& app) {
  const Names commands = app.get_subcommands().empty() ? commands_of(app) : Names();
  std::string meant, flags, words;
  for (const std::string& argument : app.remaining(true)) {
    const std::string name = argument.substr(0, argument.find('='));
    const bool is_flag = argument.starts_with('-');
    // nanoGPT's flags are written steps=3, too.
    const std::string flag = is_flag || name != argument ? meant_flag(app, name) : "";
    const Names near = is_flag || !words.empty() ? Names() : nearly(plain(argument), commands);
    if (!flag.empty()) {
      meant +=
          concat(meant.empty() ? "" : " ", "no such flag ", name, "; did you mean ", flag, "?");
    } else if (!near.empty() && meant.empty()) {
      meant = concat("no such command ", argument, "; did you mean ", either(near, ""), "?");
    } else {
      std::string& list = is_flag ? flags : words;
      list += concat(list.empty() ? "" : " ", argument);
    }
  }
  if (!flags.empty()) flags = concat("no such flag: ", flags, "; see --help");
  if (!meant.empty()) return concat(meant, flags.empty() ? "" : " ", flags);
  if (!flags.empty()) return flags;
  return concat(commands.empty() ? "words that belong to no flag: " : "no such command: ", words,
                "; see --help");
}

void refuse_empty(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i], before = argv[i - 1];
    const bool has_nothing = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (!word.empty() && !has_nothing) continue;
    const std::string_view flag = has_nothing ? word.substr(0, word.size() - 1) : before;
    throw UserError(flag.starts_with("--") ? concat(flag, ": its value is empty; see --help")
                                           : "an argument is empty; see --help");
  }
}

std::string fault_text(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what(), flag = text.substr(0, text.find(": "));
  const std::string too_many = ": At Most 1 required but received ", other = "Could not convert";
  if (text.ends_with(" missing")) return flag + ": its value is missing";
  if (text.starts_with(flag + too_many)) {
    return concat(flag, ": given ", text.substr(flag.size() + too_many.size()),
                  " times, expected once");
  }
  if (flag != other) return text;
  const size_t name = other.size() + 2, value = text.find(" = ", name);
  const CLI::Option* const option = app.get_option_no_throw(text.substr(name, value - name));
  const bool is_switch = option != nullptr && option->get_expected_max() == 0;
  return concat(text.substr(name, value - name), ": '", text.substr(value + 3),
                is_switch ? "' is neither true nor false" : "' is no value for it");
}

}  // namespace ladder
