#include <algorithm>
#include <cmath>

#include "common/io/json_file.h"
#include "common/io/printable.h"
#include "common/model/published_families.h"
#include "kernels/runtime/check.h"

namespace ladder {

PublishedFile::PublishedFile(const std::string& path)
    : path_(path), json_(read_json_object(path, kMaxPublishedBytes)) {}

void PublishedFile::refuse(const std::string& key, const std::string& why) const {
  throw UserError(concat(path_, ": ", prefix_, key, " is ", why));
}

bool PublishedFile::is_null(const char* key) const {
  return json_.contains(key) && json_[key].is_null();
}

bool PublishedFile::has(const char* key) const {
  return json_.contains(key) && !json_[key].is_null();
}

size_t PublishedFile::size(const char* key, std::optional<size_t> missing) const {
  constexpr size_t kMaxSize = 1'000'000'000;
  if (!json_.contains(key) && missing) return *missing;
  const nlohmann::json value = json_.value(key, nlohmann::json());
  if (!json_.contains(key)) refuse(key, "missing");
  if (!value.is_number_unsigned() || value < 1 || value > kMaxSize) {
    refuse(key, concat(shown(value), ", expected a whole number from 1 to ", kMaxSize));
  }
  return value;
}

double PublishedFile::number(const char* key, std::optional<double> missing) const {
  if (!json_.contains(key) && missing) return *missing;
  if (!json_.contains(key)) refuse(key, "missing");
  const nlohmann::json& value = json_[key];
  if (!value.is_number() || !(value > 0) || !std::isfinite(value.get<double>())) {
    refuse(key, concat(shown(value), ", expected a number above 0"));
  }
  return value;
}

bool PublishedFile::flag(const char* key, bool missing) const {
  const nlohmann::json value = json_.value(key, nlohmann::json(missing));
  if (!value.is_boolean()) refuse(key, concat(shown(value), ", expected true or false"));
  return value;
}

std::string PublishedFile::text(const char* key, const char* missing) const {
  const nlohmann::json value = json_.value(key, nlohmann::json(missing));
  if (!value.is_string()) refuse(key, concat(shown(value), ", expected a text"));
  return value;
}

void PublishedFile::expect(const char* key, std::initializer_list<nlohmann::json> values,
                           const std::string& who) const {
  const auto found = json_.find(key);
  if (found == json_.end() || std::ranges::find(values, *found) != values.end()) return;
  refuse(key, concat(shown(*found), ", this program's ", who, " has ", values.begin()->dump()));
}

void PublishedFile::expect_only(std::initializer_list<const char*> keys,
                                const std::string& who) const {
  for (const auto& [key, value] : json_.items()) {
    const auto is_key = [&](const char* known) { return key == known; };
    if (std::ranges::any_of(keys, is_key)) continue;
    refuse(one_line(key), concat(shown(value), ", this program's ", who, " has no such key"));
  }
}

PublishedFile PublishedFile::in(const char* key) const {
  const nlohmann::json& value = json_.at(key);
  if (!value.is_object()) refuse(key, concat(shown(value), ", expected an object"));
  return {path_, concat(prefix_, key, "."), value};
}

}  // namespace ladder
