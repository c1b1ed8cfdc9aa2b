#include "common/train/flags/flag_table.h"

#include "common/train/flags/validators.h"

namespace ladder {

void FlagTable::heading(const std::string& name, ComparedBy compared) {
  heading_ = name;
  compared_ = compared;
}

CLI::Option* FlagTable::add_row(CLI::Option* option, FlagTraits traits) {
  if (!heading_.empty()) option->group(heading_);
  if (!traits.compared) traits.compared = compared_;
  rows_[option->get_name()] = std::move(traits);
  return option;
}

CLI::Option* FlagTable::add_function(const std::string& name,
                                     const std::function<void(const std::string&)>& set,
                                     const std::string& help, const CLI::Validator& check) {
  return add_row(app_.add_option_function<std::string>(name, set, help), {})->transform(check);
}

CLI::Option* FlagTable::add_whole_list(const std::string& name, std::vector<size_t>& numbers,
                                       const std::string& help, int64_t least, int64_t most) {
  // The flag is read as text, because CLI11 would leave out an empty place between two commas.
  const auto split = [&numbers](const std::vector<std::string>& given) {
    numbers.clear();
    for (const std::string& list : given) {
      for (const std::string& item : items_of(list)) numbers.push_back(std::stoull(item));
    }
  };
  const auto check_items = [range = whole(least, most)](std::string& list) {
    for (const std::string& item : items_of(list)) {
      const std::string fault = range(item);
      if (!fault.empty()) return fault;
    }
    return std::string();
  };
  return add_row(app_.add_option_function<std::vector<std::string>>(name, split, help), {})
      ->check(CLI::Validator(check_items, ""))
      ->type_name("UINT,...");
}

const FlagTraits& FlagTable::traits(const std::string& name) const {
  static const FlagTraits kUsual = {.compared = ComparedBy::value};
  const auto found = rows_.find(name);
  return found == rows_.end() ? kUsual : found->second;
}

std::vector<std::pair<std::string, std::string>> FlagTable::files(FileUse use) const {
  std::vector<std::pair<std::string, std::string>> files;
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = option->get_name();
    if (traits(name).file != use || option->count() == 0) continue;
    files.emplace_back(name, CLI::detail::join(option->results(), ","));
  }
  return files;
}

}  // namespace ladder
