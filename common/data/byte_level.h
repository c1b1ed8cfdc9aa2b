// Byte-level tokens. The file tokenizer.json writes tokens as text, but a token is any sequence of
// bytes. So it writes each byte as one character that prints: bytes that print in Latin-1 as
// themselves, the other 68 as the characters from U+0100 on, in their order. [Radford19 GPT-2,
// encoder.py: bytes_to_unicode]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ladder {

// Returns the character, in UTF-8, that stands for a byte.
std::string byte_level_character(uint8_t byte);

// Returns the bytes that a token's text stands for. A text with any other character in it stands
// for its own UTF-8, as in Hugging Face's tokenizers; such tokens were added by hand.
std::string bytes_of_token(std::string_view text);

}  // namespace ladder
