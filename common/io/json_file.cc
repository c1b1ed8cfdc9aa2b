#include "common/io/json_file.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "common/io/printable.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;

// Sees every event while a file is parsed: a parsed object no longer shows that a key came twice.
class Watch {
 public:
  explicit Watch(const std::string& where) : where_(where) {}

  bool operator()(int, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      keys_.emplace_back();
      if (keys_.size() > kMaxDepth) throw UserError(concat(where_, ": the JSON nests too deep"));
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
    } else if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw UserError(
          concat(where_, ": the key ", quoted_name(parsed.get<std::string>()), " is there twice"));
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;  // of the objects and arrays that are open
};

}  // namespace

Json parse_json_object(std::string_view text, const std::string& where) {
  Watch watch(where);
  Json value;
  try {
    value = Json::parse(text, std::ref(watch));
  } catch (const Json::parse_error& error) {
    throw UserError(concat(where, ": is not valid JSON in UTF-8, near its byte ", error.byte));
  } catch (const Json::exception&) {
    throw UserError(concat(where, ": has a number that is too large"));
  }
  if (!value.is_object()) throw UserError(concat(where, ": expected a JSON object"));
  return value;
}

Json read_json_object(const std::string& path, size_t max_bytes) {
  return read_json_object(InputFile(path), max_bytes);
}

Json read_json_object(const InputFile& file, size_t max_bytes) {
  if (file.size() > max_bytes) {
    throw UserError(concat(file.path(), ": ", file.size(), " bytes, expected at most ", max_bytes));
  }
  return parse_json_object(file.text(0, file.size()), file.path());
}

std::string shown(const Json& value) {
  constexpr size_t kMaxBytes = 100;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() <= kMaxBytes) return text;
  return text.substr(0, kMaxBytes) + "...";
}

}  // namespace ladder
