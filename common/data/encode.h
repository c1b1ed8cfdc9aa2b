// Turns text into tokens: those of a tokenizer.json, or bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ladder {

// Returns the tokens of `text` in the byte-level BPE of a tokenizer.json, as Hugging Face's
// tokenizers make them without special tokens around the text; those within it count. Throws a
// UserError that begins with the path if the file is damaged or splits texts in another way than
// GPT-2 does, or if the text has letters beyond ASCII: which of them are letters, and which are
// digits, is not known here. [Radford19 GPT-2, encoder.py; Sennrich16]
std::vector<int32_t> encode(const std::string& path, const std::string& text);

// Returns a function that does the same with many texts, and reads the file once.
std::function<std::vector<int32_t>(const std::string& text)> encoder(const std::string& path);

// Returns the bytes of a text, which are its tokens without a tokenizer.
std::vector<int32_t> byte_tokens(const std::string& text);

}  // namespace ladder
