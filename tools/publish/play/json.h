// Writes JSON: as much of it as the pages of this folder read.
#pragma once

#include <initializer_list>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ladder {

// Text that is JSON already.
struct Json {
  std::string text;
};

inline Json json(Json value) { return value; }
inline Json json(size_t value) { return {std::to_string(value)}; }
// With so many digits that the same number is read back; what is no number is null.
inline Json json(double value) {
  std::ostringstream out;
  out << std::setprecision(17) << value;
  return {value - value == 0 ? out.str() : "null"};
}
inline Json json(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return {text + '"'};
}
template <class T>
Json json(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ",") + json(value).text;
  return {"[" + text + "]"};
}
inline Json json(std::initializer_list<std::pair<std::string_view, Json>> members) {
  std::string text;
  for (const auto& [name, value] : members) {
    text += (text.empty() ? "" : ",") + json(name).text + ":" + value.text;
  }
  return {"{" + text + "}"};
}

}  // namespace ladder
