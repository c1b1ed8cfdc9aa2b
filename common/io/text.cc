#include "common/io/text.h"

#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "kernels/runtime/check.h"

namespace ladder {

std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  const int length = std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  check(length >= 0 && static_cast<size_t>(length) < sizeof text, "format: too long a line");
  return text;
}

std::string with_commas(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  const long long h = whole / 3600, m = whole / 60 % 60, s = whole % 60;
  return h > 0 ? format("%lld:%02lld:%02lld", h, m, s) : format("%lld:%02lld", m, s);
}

std::string shortest_text(double number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.substr(text.starts_with(kMark) ? kMark.size() : 0);
}

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items(1);
  for (const char c : list) {
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

}  // namespace ladder
