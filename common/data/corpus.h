// A corpus: a long row of tokens, split once into a training and a validation part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/io/file.h"

namespace ladder {

enum class Split { train, validation };

// The tokens of a text (every byte is a token, 0 to 255) or of token shards (uint16), compiled in
// or mapped read-only: opening reads next to nothing, and ranks of a node share the pages. The
// files must not shrink while they are open. Move-only.
class Corpus {
 public:
  Corpus(Corpus&&) = default;
  Corpus& operator=(Corpus&&) = default;

  // The text that is compiled in.
  static Corpus king_james();

  // `path` is one of
  //   a token shard as llm.c writes it: 256 little-endian int32 (magic 20240520, version 1, number
  //     of tokens, then unused), then that many little-endian uint16. A file that begins with the
  //     magic, or is called FILE.bin, in small letters or capitals
  //   a folder: all its .bin files in the order of their names, one after the other
  //   any other regular file: a text
  // Throws UserError when there is no such file, it cannot be read, is not a regular file, is
  // empty, the folder has no .bin, or a shard's magic, version or size is wrong.
  static Corpus open(const std::string& path);

  // Throws UserError unless every token is below vocab_size and each split holds at least one row
  // of sequence_length + 1 tokens. Reads all tokens, where their type alone does not bound them.
  void require(size_t vocab_size, size_t sequence_length) const;

  size_t num_tokens() const { return shards_.back().end; }
  // The tokens of a split are [begin, end). Of n tokens the first floor(9 n / 10) are for training.
  size_t begin(Split split) const { return split == Split::train ? 0 : num_train_tokens(); }
  size_t end(Split split) const {
    return split == Split::train ? num_train_tokens() : num_tokens();
  }
  // REQUIRES: index < num_tokens().
  int32_t token(size_t index) const;

  // Whether tokens are bytes of a text, which can be printed.
  bool is_text() const { return is_text_; }
  // The files that the tokens are read from; none of the text that is compiled in.
  std::vector<std::string> files() const;
  // Where the tokens come from: the path, or "King James text (built in)".
  const std::string& name() const { return name_; }

 private:
  // Tokens [begin, end) of the corpus. `tokens` points to uint8_t (text) or uint16_t.
  struct Shard {
    std::string path;
    std::unique_ptr<const MappedFile> file;  // null for the text that is compiled in
    const void* tokens;
    size_t begin, end;
  };

  Corpus(std::string name, bool is_text) : name_(std::move(name)), is_text_(is_text) {}
  void append_shard(const std::string& path, std::unique_ptr<const MappedFile> file);
  template <class Token>
  void require_below(size_t vocab_size) const;
  size_t num_train_tokens() const { return num_tokens() * 9 / 10; }

  std::string name_;
  bool is_text_;
  std::vector<Shard> shards_;  // never empty, and neither is any shard
};

}  // namespace ladder
