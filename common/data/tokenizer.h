// The file tokenizer.json of Hugging Face's tokenizers, as far as it turns tokens into text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ladder {

// Tokenizer has the tokens of a byte-level BPE, such as GPT-2's. It turns numbers into bytes, and
// not text into numbers: tools/tokenize does that.
class Tokenizer {
 public:
  // Reads a tokenizer.json: its "model" must be a BPE with a vocabulary, its "decoder" must be
  // ByteLevel, or a sequence with that in it, and "added_tokens" may follow. Throws a UserError
  // that begins with the path if the file is missing, damaged or of another kind, or if two tokens
  // have the same number.
  explicit Tokenizer(const std::string& path);

  // Returns one more than the largest number of a token.
  size_t size() const { return tokens_.rbegin()->first + 1; }
  // Returns the bytes of a token. A number that no token has becomes a mark, such as "[50300]".
  std::string text_of(int32_t token) const;

 private:
  std::map<size_t, std::string> tokens_;  // the bytes of each, by number; never empty
};

// Returns the text of a tokenizer.json whose tokens are the bytes, each with its own value as
// number. A vocabulary of less than 256 has only the first bytes.
std::string byte_tokenizer(size_t vocab_size);
// Returns the text of a tokenizer_config.json with which transformers' AutoTokenizer opens the
// tokenizer.json beside it, without special tokens.
std::string tokenizer_config(size_t sequence_length);

}  // namespace ladder
