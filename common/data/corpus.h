// A corpus: a long line of tokens, or examples, split into a training and a validation part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/data/examples.h"
#include "common/io/file.h"

namespace ladder {

enum class Split { train, validation };

// A corpus has the tokens of a text (every byte is a token, 0 to 255) or of token shards (uint16).
// They are compiled in, or in files that stay open: opening reads next to nothing, and so do ranks,
// which read the sequences of their batches. A file that is written to while it is open is an error
// where it is read (InputFile).
class Corpus {
 public:
  Corpus(Corpus&&) = default;
  Corpus& operator=(Corpus&&) = default;

  // Returns the text that is compiled in.
  static Corpus king_james();

  // Opens the files that `names` stands for (data_files()), and reads them as one line of tokens,
  // file after file. A file is one of
  //   a token shard as llm.c writes it: 256 little-endian int32 (magic 20240520, version 1, number
  //     of tokens, then unused), then that many little-endian uint16. Files that begin with the
  //     magic, or are called FILE.bin (in small letters or capitals), are shards;
  //   a text: any other regular file. Several texts are joined without anything between them.
  // Throws UserError if a file cannot be read, is not a regular file, is empty or is known to be of
  // another format (describe_format()), if a shard's magic, version or size is wrong, or if there
  // are texts and shards.
  static Corpus open(const std::string& names);

  // Returns a corpus of examples, whose tokens are bytes of a text if `is_text`. `file` is what
  // they were read from; empty = no file. REQUIRES: there are at least kExamplesForOne.
  static Corpus of_examples(std::string name, Examples examples, bool is_text,
                            std::string file = {});

  // Of so many examples in a row the last is for validation, the others are for training.
  static constexpr size_t kExamplesForOne = 10;
  // Returns whether the corpus has examples. It then has no line of tokens: begin(), end() and
  // read() are for other corpora.
  bool has_examples() const { return examples_.size() > 0; }
  // Return the number of examples of a split, and the index-th of them.
  size_t num_examples(Split split) const;
  Example example(Split split, size_t index) const;

  // Throws UserError unless every token is below vocab_size and each split has at least
  // sequence_length + 1 tokens. It reads all tokens, unless their type already bounds them. Of
  // examples it requires that each has at most sequence_length tokens. With a mask token, which is
  // the last of the vocabulary, no token may be that.
  void require(size_t vocab_size, size_t sequence_length, bool has_mask = false) const;

  size_t num_tokens() const { return has_examples() ? examples_.num_tokens() : shards_.back().end; }
  // A split has tokens [begin, end). Of n tokens the first floor(9 n / 10) are for training.
  size_t begin(Split split) const { return split == Split::train ? 0 : num_train_tokens(); }
  size_t end(Split split) const {
    return split == Split::train ? num_train_tokens() : num_tokens();
  }
  // Reads tokens from number `first` on, as many as `tokens` has. Throws an Error that names the
  // file if it has been written to since it was opened. REQUIRES: the corpus has so many.
  void read(size_t first, std::span<int32_t> tokens) const;

  // Returns whether tokens are bytes of a text, which can be printed.
  bool is_text() const { return is_text_; }
  // Returns the files that the tokens are read from. The text that is compiled in has none.
  std::vector<std::string> files() const;
  // Returns where the tokens come from: what open() was given, or "King James text (built in)".
  const std::string& name() const { return name_; }

 private:
  // A shard has tokens [begin, end) of the corpus.
  struct Shard {
    std::unique_ptr<const InputFile> file;  // null for the text that is compiled in
    size_t first_byte;                      // of its first token in the file
    size_t begin, end;
  };

  explicit Corpus(std::string name) : name_(std::move(name)) {}
  // Opens the file, and appends its tokens.
  void append(const std::string& path);
  template <class Token>
  void require_below(size_t vocab_size, bool has_mask) const;
  // Reads bytes of a shard's tokens, from byte `begin` of them on.
  static void read_bytes(const Shard& shard, size_t begin, std::span<std::byte> bytes);
  size_t num_train_tokens() const { return num_tokens() * 9 / 10; }

  std::string name_;
  bool is_text_ = false;
  std::vector<Shard> shards_;  // of a line of tokens: never empty, and neither is any shard
  Examples examples_;
  std::string examples_file_;
};

}  // namespace ladder
