#include "common/data/corpus.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "common/data/data_files.h"
#include "common/data/king_james.h"
#include "common/io/file_format.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr int32_t kShardMagic = 20240520;
constexpr int32_t kLlama3Magic = 20240801;
constexpr int32_t kShardVersion = 1;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

static_assert(std::endian::native == std::endian::little, "shards are read as they lie in memory");

int32_t magic_of(std::string_view head) {
  int32_t magic = 0;
  if (head.size() >= sizeof magic) std::memcpy(&magic, head.data(), sizeof magic);
  return magic;
}

// Returns whether a file is a text. Otherwise it is a token shard, by its name or by its magic.
bool is_text_file(const std::string& path, std::string_view head) {
  const int32_t magic = magic_of(head);
  return !is_bin(path) && magic != kShardMagic && magic != kLlama3Magic;
}

const char* kind_of(bool is_text) { return is_text ? "a text" : "a token shard"; }

// Throws UserError if the file begins as one of another format does.
void require_data(const std::string& path, std::string_view head) {
  const std::string format = describe_format(head, Wanted::data);
  if (!format.empty()) refuse_data(path, "is ", format);
}

// Returns the number of tokens in a shard.
size_t shard_tokens(const InputFile& file, std::string_view head) {
  const std::string& path = file.path();
  if (file.size() < kHeaderBytes) {
    refuse_data(path, file.size(), " bytes, less than the ", kHeaderBytes,
                " of a token shard's header");
  }
  std::array<int32_t, 3> header;
  std::memcpy(header.data(), head.data(), sizeof(header));
  const auto [magic, version, count] = header;
  if (magic == kLlama3Magic) {
    refuse_data(path, "magic ", magic, " is llm.c's Llama-3 format (uint32 tokens); expected ",
                kShardMagic, ", its GPT-2 format (uint16 tokens)");
  }
  if (magic != kShardMagic) {
    refuse_data(path, "magic ", magic, ", expected ", kShardMagic,
                " (an llm.c token shard); tools/tokenize --convert makes shards of tokens without "
                "a header, as nanoGPT's prepare.py writes them");
  }
  if (version != kShardVersion) {
    refuse_data(path, "version ", version, " of the token shard, expected ", kShardVersion);
  }
  const size_t payload = file.size() - kHeaderBytes;
  if (count < 0 || static_cast<size_t>(count) * sizeof(uint16_t) != payload) {
    refuse_data(path, "the header says ", count, " tokens of 2 bytes, but ", payload,
                " bytes follow the header");
  }
  if (count == 0) refuse_data(path, "the shard holds no token");
  return static_cast<size_t>(count);
}

// Lets this process open so many files beside what it has open, as far as the system allows.
void allow_open_files(size_t count) {
  constexpr size_t kOthers = 512;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + kOthers) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, count + kOthers);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Corpus Corpus::king_james() {
  Corpus corpus("King James text (built in)");
  corpus.is_text_ = true;
  corpus.shards_.push_back({nullptr, 0, 0, king_james_text().size()});
  return corpus;
}

Corpus Corpus::open(const std::string& names) {
  Corpus corpus(names);
  const std::vector<std::string> paths = data_files(names);
  allow_open_files(paths.size());
  for (const std::string& path : paths) corpus.append(path);
  return corpus;
}

Corpus Corpus::of_examples(std::string name, Examples examples, bool is_text, std::string file) {
  check(examples.size() >= kExamplesForOne, "Corpus::of_examples: too few");
  Corpus corpus(std::move(name));
  corpus.is_text_ = is_text;
  corpus.examples_ = std::move(examples);
  corpus.examples_file_ = std::move(file);
  return corpus;
}

size_t Corpus::num_examples(Split split) const {
  const size_t validation = examples_.size() / kExamplesForOne;
  return split == Split::validation ? validation : examples_.size() - validation;
}

Example Corpus::example(Split split, size_t index) const {
  constexpr size_t kTraining = kExamplesForOne - 1;
  return examples_[split == Split::validation
                       ? index * kExamplesForOne + kTraining
                       : index / kTraining * kExamplesForOne + index % kTraining];
}

void Corpus::append(const std::string& path) {
  auto file = std::make_unique<const InputFile>(path, "--data");
  if (file->size() == 0) refuse_data(path, "the file is empty");
  const std::string head = file->text(0, kFormatBytes);
  const bool is_text = is_text_file(path, head);
  require_data(path, head);
  if (shards_.empty()) is_text_ = is_text;
  if (is_text != is_text_) {
    refuse_data(name_, shards_[0].file->path(), " is ", kind_of(is_text_), " and ", path, " is ",
                kind_of(is_text), "; texts and token shards do not mix");
  }
  const size_t count = is_text ? file->size() : shard_tokens(*file, head);
  const size_t begin = shards_.empty() ? 0 : num_tokens();
  shards_.push_back({std::move(file), is_text ? 0 : kHeaderBytes, begin, begin + count});
}

std::vector<std::string> Corpus::files() const {
  std::vector<std::string> paths;
  if (!examples_file_.empty()) paths.push_back(examples_file_);
  for (const Shard& shard : shards_) {
    if (shard.file) paths.push_back(shard.file->path());
  }
  return paths;
}

void Corpus::read(size_t first, std::span<int32_t> tokens) const {
  check(!has_examples(), "Corpus::read: the corpus has examples, no line of tokens");
  check(first <= num_tokens() && tokens.size() <= num_tokens() - first, "Corpus::read: too many");
  const size_t width = is_text_ ? sizeof(uint8_t) : sizeof(uint16_t);
  auto shard = std::upper_bound(shards_.begin(), shards_.end() - 1, first,
                                [](size_t i, const Shard& s) { return i < s.end; });
  for (; !tokens.empty(); ++shard) {
    const std::span<int32_t> some = tokens.first(std::min(tokens.size(), shard->end - first));
    // Tokens are read into the end of the memory that they will fill, and widened from its start.
    const std::span<std::byte> file_bytes = std::as_writable_bytes(some).last(some.size() * width);
    read_bytes(*shard, (first - shard->begin) * width, file_bytes);
    for (size_t i = 0; i < some.size(); ++i) {
      uint16_t token = 0;
      std::memcpy(&token, file_bytes.data() + i * width, width);
      some[i] = token;
    }
    first += some.size();
    tokens = tokens.subspan(some.size());
  }
}

void Corpus::require(size_t vocab_size, size_t sequence_length, bool has_mask) const {
  for (size_t i = 0; i < examples_.size(); ++i) {
    check(examples_[i].tokens.size() <= sequence_length, "Corpus::require: an example is too long");
  }
  if (has_examples()) return;
  for (const Split split : {Split::train, Split::validation}) {
    const size_t count = end(split) - begin(split);
    if (count > sequence_length) continue;
    refuse_data(name_, "too short: ", count, " of its ", num_tokens(), " tokens are for ",
                split == Split::train ? "training" : "validation",
                ", but one sequence of --sequence-length ", sequence_length, " takes ",
                sequence_length + 1);
  }
  if (is_text_) {
    require_below<uint8_t>(vocab_size, has_mask);
  } else {
    require_below<uint16_t>(vocab_size, has_mask);
  }
}

template <class Token>
void Corpus::require_below(size_t vocab_size, bool has_mask) const {
  const size_t num_tokens = vocab_size - (has_mask ? 1 : 0);  // those that a corpus may have
  if (num_tokens > std::numeric_limits<Token>::max()) return;
  constexpr size_t kBufferElements = 1 << 16;
  std::vector<Token> buffer;
  for (const Shard& shard : shards_) {
    const size_t count = shard.end - shard.begin;
    Token largest = 0;
    std::optional<std::pair<Token, size_t>> beyond;  // the first such token, and its place
    for (size_t begin = 0; begin < count; begin += buffer.size()) {
      buffer.resize(std::min(kBufferElements, count - begin));
      read_bytes(shard, begin * sizeof(Token), std::as_writable_bytes(std::span(buffer)));
      for (const Token token : buffer) largest = std::max(largest, token);
      if (beyond || largest < num_tokens) continue;
      const auto found =
          std::ranges::find_if(buffer, [&](Token token) { return token >= num_tokens; });
      beyond = {*found, begin + static_cast<size_t>(found - buffer.begin())};
    }
    if (!beyond) continue;
    refuse_data(shard.file ? shard.file->path() : name_, "token ", int{beyond->first}, " at place ",
                beyond->second, " is not below ",
                has_mask ? "the last token, which is the mask, of " : "", "the vocabulary of ",
                vocab_size, "; this file needs --vocab ", largest + (has_mask ? 2 : 1), " or more");
  }
}

void Corpus::read_bytes(const Shard& shard, size_t begin, std::span<std::byte> bytes) {
  if (shard.file) return shard.file->read(shard.first_byte + begin, bytes);
  std::memcpy(bytes.data(), king_james_text().data() + begin, bytes.size());
}

}  // namespace ladder
