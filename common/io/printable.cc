#include "common/io/printable.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns whether a character that begins with these bytes is a control character (U+0080 to
// U+009F), separates lines or paragraphs, or changes the direction of writing.
bool controls(unsigned char first, unsigned char second, unsigned char third) {
  if (first == 0xC2) return second < 0xA0;
  if (first != 0xE2) return false;
  return (second == 0x80 && third >= 0xA8 && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

// Returns the bytes of the character beyond ASCII that `text` begins with. It is 0 if that is not
// UTF-8, or if controls() is true for it.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (length == 0 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  // These are longer than needed, or a surrogate, or beyond the last character.
  const bool bad = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) >= 0xA0) ||
                   (byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) >= 0x90);
  return bad || controls(byte(0), byte(1), length > 2 ? byte(2) : 0) ? 0 : length;
}

// Returns `bytes` with replace(byte) in place of each byte that is not part of a printing
// character.
template <class Replace>
std::string with_replaced(std::string_view bytes, Replace replace) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const char c = bytes[i];
    const size_t length = c >= ' ' && c <= '~' ? 1 : utf8_length(bytes.substr(i));
    text += length > 0 ? std::string(bytes.substr(i, length)) : replace(c);
    i += std::max<size_t>(length, 1);
  }
  return text;
}

}  // namespace

std::string printable(std::string_view bytes) {
  return with_replaced(bytes,
                       [](char c) { return std::string(1, c == '\n' || c == '\t' ? c : '?'); });
}

std::string one_line(std::string_view bytes) {
  constexpr size_t kMaxBytes = 2000;
  if (bytes.size() > kMaxBytes) {
    return concat(one_line(bytes.substr(0, kMaxBytes / 2)), " ... ",
                  one_line(bytes.substr(bytes.size() - kMaxBytes / 2)));
  }
  return with_replaced(bytes, [](char c) {
    if (c == '\n') return std::string("\\n");
    if (c == '\t') return std::string("\\t");
    constexpr const char* kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(c);
    return std::string("\\x") + kDigits[value >> 4] + kDigits[value & 15];
  });
}

std::string listed(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (const std::string& item : items) {
    text += concat(&item == &items.front() ? "" : separator, one_line(item));
  }
  return text;
}

std::string quoted_name(std::string_view name) {
  using Json = nlohmann::json;
  constexpr size_t kMaxBytes = 100;
  const bool cut = name.size() > kMaxBytes;
  const std::string shown(name.substr(0, kMaxBytes));
  return Json(cut ? shown + "..." : shown).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string said(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "the system refused memory for what is not counted in any category, such as texts and "
           "lists; this machine, or a limit (ulimit -v, a container's), has too little for this "
           "run";
  }
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return concat(file->path1().string(), ": ", file->code().message());
  }
  if (const auto* refusal = dynamic_cast<const std::system_error*>(&error)) {
    return concat("the system refused a thread: ", refusal->code().message());
  }
  const bool is_json = dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr;
  return is_json ? "it is no JSON, or has a value of another kind than it should be" : error.what();
}

}  // namespace ladder
