#include "common/data/corpus.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "common/data/data_files.h"
#include "common/data/king_james.h"
#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr int32_t kShardMagic = 20240520;
constexpr int32_t kLlama3Magic = 20240801;
constexpr int32_t kShardVersion = 1;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

static_assert(std::endian::native == std::endian::little, "shards are read as they lie in memory");

int32_t magic_of(std::span<const std::byte> file) {
  int32_t magic = 0;
  if (file.size() >= sizeof magic) std::memcpy(&magic, file.data(), sizeof magic);
  return magic;
}

// Returns whether a file is a text. Otherwise it is a token shard, by its name or by its magic.
bool is_text_file(const std::string& path, std::span<const std::byte> file) {
  const int32_t magic = magic_of(file);
  return !is_bin(path) && magic != kShardMagic && magic != kLlama3Magic;
}

const char* kind_of(bool is_text) { return is_text ? "a text" : "a token shard"; }

std::unique_ptr<const MappedFile> map_file(const std::string& path) {
  auto file = named_by("--data", [&] { return std::make_unique<const MappedFile>(path); });
  if (file->bytes().empty()) refuse_data(path, "the file is empty");
  return file;
}

constexpr const char* kHowToConvert =
    "; tokens without a header, as nanoGPT's prepare.py writes them, get one by python3 -c "
    "'import struct,sys;t=sys.stdin.buffer.read();sys.stdout.buffer.write(struct.pack(\"<256i\","
    "20240520,1,len(t)//2,*[0]*253)+t)' < IN.bin > OUT.bin";

// Returns the number of tokens in a shard.
size_t shard_tokens(const std::string& path, std::span<const std::byte> file) {
  if (file.size() < kHeaderBytes) {
    refuse_data(path, file.size(), " bytes, less than the ", kHeaderBytes,
                " of a token shard's header");
  }
  std::array<int32_t, 3> header;
  std::memcpy(header.data(), file.data(), sizeof(header));
  const auto [magic, version, count] = header;
  if (magic == kLlama3Magic) {
    refuse_data(path, "magic ", magic, " is llm.c's Llama-3 format (uint32 tokens); expected ",
                kShardMagic, ", its GPT-2 format (uint16 tokens)");
  }
  if (magic != kShardMagic) {
    refuse_data(path, "magic ", magic, ", expected ", kShardMagic, " (an llm.c token shard)",
                kHowToConvert);
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

}  // namespace

Corpus Corpus::king_james() {
  Corpus corpus("King James text (built in)");
  corpus.is_text_ = true;
  const std::string_view text = king_james_text();
  corpus.shards_.push_back({corpus.name_, nullptr, text.data(), 0, text.size()});
  return corpus;
}

Corpus Corpus::open(const std::string& names) {
  Corpus corpus(names);
  for (const std::string& path : data_files(names)) corpus.append(path);
  return corpus;
}

void Corpus::append(const std::string& path) {
  auto file = map_file(path);
  const std::span<const std::byte> bytes = file->bytes();
  const bool is_text = is_text_file(path, bytes);
  if (shards_.empty()) is_text_ = is_text;
  if (is_text != is_text_) {
    refuse_data(name_, shards_[0].path, " is ", kind_of(is_text_), " and ", path, " is ",
                kind_of(is_text), "; texts and token shards do not mix");
  }
  const size_t count = is_text ? bytes.size() : shard_tokens(path, bytes);
  const void* tokens = is_text ? bytes.data() : bytes.data() + kHeaderBytes;
  const size_t begin = shards_.empty() ? 0 : num_tokens();
  shards_.push_back({path, std::move(file), tokens, begin, begin + count});
}

std::vector<std::string> Corpus::files() const {
  std::vector<std::string> paths;
  for (const Shard& shard : shards_) {
    if (shard.file) paths.push_back(shard.path);
  }
  return paths;
}

int32_t Corpus::token(size_t index) const {
  const auto shard = std::upper_bound(shards_.begin(), shards_.end() - 1, index,
                                      [](size_t i, const Shard& s) { return i < s.end; });
  const size_t place = index - shard->begin;
  if (is_text_) return static_cast<const uint8_t*>(shard->tokens)[place];
  return static_cast<const uint16_t*>(shard->tokens)[place];
}

void Corpus::require(size_t vocab_size, size_t sequence_length) const {
  for (const Split split : {Split::train, Split::validation}) {
    const size_t count = end(split) - begin(split);
    if (count > sequence_length) continue;
    refuse_data(name_, "too short: ", count, " of its ", num_tokens(), " tokens are for ",
                split == Split::train ? "training" : "validation",
                ", but one sequence of --sequence-length ", sequence_length, " takes ",
                sequence_length + 1);
  }
  if (is_text_) {
    require_below<uint8_t>(vocab_size);
  } else {
    require_below<uint16_t>(vocab_size);
  }
}

template <class Token>
void Corpus::require_below(size_t vocab_size) const {
  if (vocab_size > std::numeric_limits<Token>::max()) return;
  for (const Shard& shard : shards_) {
    const Token* tokens = static_cast<const Token*>(shard.tokens);
    const size_t count = shard.end - shard.begin;
    Token largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, tokens[i]);
    if (largest < vocab_size) continue;
    const size_t place =
        std::find_if(tokens, tokens + count, [&](Token token) { return token >= vocab_size; }) -
        tokens;
    refuse_data(shard.path, "token ", int{tokens[place]}, " at place ", place,
                " is not below the vocabulary of ", vocab_size, "; this file needs --vocab ",
                int{largest} + 1, " or more");
  }
}

}  // namespace ladder
