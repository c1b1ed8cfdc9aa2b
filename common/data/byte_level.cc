#include "common/data/byte_level.h"

#include <map>

namespace ladder {
namespace {

bool prints_in_latin1(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

// Returns a character from U+0000 to U+07FF in UTF-8.
std::string utf8(unsigned character) {
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace

std::string byte_level_character(uint8_t byte) {
  if (prints_in_latin1(byte)) return utf8(byte);
  unsigned index = 0;  // among the bytes that do not print
  for (unsigned other = 0; other < byte; ++other) index += !prints_in_latin1(other);
  return utf8(0x100 + index);
}

std::string bytes_of_token(std::string_view text) {
  static const auto bytes = [] {
    std::map<std::string, char, std::less<>> result;
    for (unsigned byte = 0; byte < 256; ++byte) {
      result[byte_level_character(static_cast<uint8_t>(byte))] = static_cast<char>(byte);
    }
    return result;
  }();
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const size_t length = static_cast<unsigned char>(text[i]) < 0x80 ? 1 : 2;
    const auto found = bytes.find(text.substr(i, length));
    if (found == bytes.end()) return std::string(text);
    result += found->second;
    i += length;
  }
  return result;
}

}  // namespace ladder
