// Damaged indexes by the thousand, in every build; tools/fuzz does the same for longer.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>

#include "tests/common/checkpoint/indexes.h"
#include "tests/common/checkpoint/mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ladder {
namespace {

using Json = nlohmann::json;

void try_text(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

TEST_CASE("damaged indexes with a checksum that fits are read, or refused in one line") {
  std::mt19937_64 random(1);
  const Json good = Json::parse(good_index_text());
  for (int i = 0; i < 3'000; ++i) {
    Json json = good;
    for (size_t n = 1 + random() % 3; n > 0; --n) mutate(json, random);
    try_text(json.dump());
  }
}

TEST_CASE("indexes that claim much take no time and no memory") {
  Json json = Json::parse(to_text(whole_index({1, 1, 1, 2, 1}, {})));
  // 2^59 bytes of one tensor; a model of terabytes; all ranks that may be.
  json["tensors"]["param.wte.weight"]["shape"] = {size_t{1} << 28, size_t{1} << 28};
  json["tensors"]["param.wte.weight"]["slices"][0]["range"] = {0, size_t{1} << 56};
  try_text(json.dump());
  json["model"] = {{"layers", 10'000},
                   {"heads", 1},
                   {"hidden", 1'000'000},
                   {"vocab", 1'000'000'000},
                   {"sequence_length", 1'000'000'000}};
  try_text(json.dump());
  json["layout"]["data"] = 1'000'000;
  try_text(json.dump());
  // A great many keys, each of which must be found.
  for (int i = 0; i < 200'000; ++i) json["settings"][std::to_string(i)] = "";
  try_text(json.dump());
}

}  // namespace
}  // namespace ladder
