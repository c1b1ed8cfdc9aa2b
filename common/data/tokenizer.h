// The file tokenizer.json of Hugging Face's tokenizers, as far as it turns tokens into text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ladder {

// Tokenizer has the tokens of a byte-level BPE, such as GPT-2's, and turns token numbers into
// bytes. encode() (encode.h) turns a prompt into tokens; tools/tokenize does so for whole texts.
class Tokenizer {
 public:
  // Reads a tokenizer.json: its "model" must be a BPE with a vocabulary, its "decoder" must be
  // ByteLevel, or a sequence with that in it, and "added_tokens" may follow. If the file
  // tokenizer_config.json lies beside it, as transformers writes it, its "eos_token" is the end of
  // a text. Throws a UserError that begins with a path if a file is missing, damaged or of another
  // kind, or if two tokens have the same number.
  explicit Tokenizer(const std::string& path);

  // Returns one more than the largest number of a token.
  size_t size() const { return tokens_.rbegin()->first + 1; }
  // Returns whether a token has this number.
  bool has(int32_t token) const { return tokens_.contains(static_cast<size_t>(token)); }
  // Returns the bytes of a token. A number that no token has becomes a mark, such as "[50300]".
  std::string text_of(int32_t token) const;
  // Returns the token that begins and ends a document: "eos_token", otherwise <|endoftext|>. There
  // is none if no token has that name.
  std::optional<int32_t> end_of_text() const { return end_of_text_; }
  // Returns the text of the file, for others to use. Saved settings for truncation, padding and
  // dropout are taken out: they would change which tokens a text becomes.
  std::string file() const;

 private:
  std::map<size_t, std::string> tokens_;  // the bytes of each, by number; never empty
  std::optional<int32_t> end_of_text_;
  std::string file_;  // the text of the file as it is
};

// What is known of the tokens of a run or of a checkpoint.
struct Vocabulary {
  bool is_text = false;                // whether tokens are the bytes of a text
  std::optional<Tokenizer> tokenizer;  // makes text of tokens that are not
  std::optional<int32_t> end_of_text;  // the token that begins and ends a document
};

// Returns the text of a tokenizer.json whose tokens are the bytes, each with its own value as
// number. A vocabulary of less than 256 has only the first bytes.
std::string byte_tokenizer(size_t vocab_size);
// Returns the text of a tokenizer_config.json with which transformers' AutoTokenizer opens the
// tokenizer.json beside it. `end_of_text` is the token that begins and ends a document, or null;
// there are no other special tokens.
std::string tokenizer_config(size_t sequence_length, const std::string* end_of_text);

}  // namespace ladder
