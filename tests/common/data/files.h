// Data files made by the tests.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/data/corpus.h"
#include "tests/common/io/test_files.h"

namespace ladder {

// The bytes of a token shard whose header says (magic, version, count).
inline std::string shard_bytes(const std::vector<uint16_t>& tokens, int32_t count,
                               int32_t magic = 20240520, int32_t version = 1) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
         std::string(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
}

inline std::string shard_bytes(const std::vector<uint16_t>& tokens) {
  return shard_bytes(tokens, static_cast<int32_t>(tokens.size()));
}

// first, first + 1, ...: where tokens count up, a token tells its place.
inline std::vector<uint16_t> counting(uint16_t first, size_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline int32_t token_of(const Corpus& corpus, size_t index) {
  int32_t token = -1;
  corpus.read(index, std::span(&token, 1));
  return token;
}

}  // namespace ladder
