// Damaged indexes by the thousand, in every build: LADDER_INDEXES of them, beginning with the
// random numbers of LADDER_SEED. tools/fuzz goes on for longer, and changes bytes too.
#include <cstdint>
#include <cstdlib>
#include <random>

#include "tests/catch.h"
#include "tests/common/checkpoint/mutate.h"
#include "tests/common/checkpoint/try_index.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

size_t number_of(const char* variable, size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::stoull(text) : otherwise;
}

TEST_CASE("damaged indexes with a checksum that fits are read, or refused in one line") {
  std::mt19937_64 random(number_of("LADDER_SEED", 1));
  const Json whole = Json::parse(whole_text()), part = Json::parse(short_text());
  const size_t num_indexes = number_of("LADDER_INDEXES", 20'000);
  for (size_t i = 0; i < num_indexes; ++i) {
    Json json = i % 64 == 0 ? whole : part;
    for (size_t n = 1 + random() % 3; n > 0; --n) mutate(json, random);
    try_index(std::move(json));
  }
}

TEST_CASE("indexes that claim much take no time and no memory") {
  Json json = Json::parse(to_text(whole_index({1, 1, 1, 2, 1}, {})));
  // 2^59 bytes of one tensor; a model of terabytes; all ranks that may be.
  json["tensors"]["param.wte.weight"]["shape"] = {size_t{1} << 28, size_t{1} << 28};
  json["tensors"]["param.wte.weight"]["slices"][0]["range"] = {0, size_t{1} << 56};
  try_index(json);
  json["model"] = {{"layers", 10'000},
                   {"heads", 1},
                   {"hidden", 1'000'000},
                   {"vocab", 1'000'000'000},
                   {"sequence_length", 1'000'000'000}};
  try_index(json);
  json["layout"]["data"] = 1'000'000;
  try_index(json);
  // A great many keys, each of which must be found.
  for (int i = 0; i < 200'000; ++i) json["settings"][std::to_string(i)] = "";
  try_index(json);
}

}  // namespace
}  // namespace ladder
