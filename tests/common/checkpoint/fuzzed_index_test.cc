// Damaged indexes by the thousand, in every build: what tools/fuzz does for longer, and with
// mutations that know the fields.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>

#include "tests/common/checkpoint/indexes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ladder {
namespace {

using Json = nlohmann::json;

void try_text(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// Every value in it, from the outside in.
std::vector<Json*> values_in(Json& json) {
  std::vector<Json*> values = {&json};
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]->is_structured()) {
      for (Json& value : *values[i]) values.push_back(&value);
    }
  }
  return values;
}

// Numbers at which sums and products go wrong, and values of every kind.
const std::vector<Json>& odd_values() {
  static const std::vector<Json> values = {
      nullptr,
      true,
      0,
      1,
      2,
      -1,
      1.5,
      1e300,
      7,
      64,
      size_t{1} << 20,
      (size_t{1} << 31) - 1,
      size_t{1} << 32,
      size_t{1} << 59,
      size_t{1} << 60,
      INT64_MAX,
      INT64_MIN,
      UINT64_MAX,
      "",
      "fp64",
      "0123456789abcdef",
      "\n\t",
      Json::array(),
      Json::object(),
      {0, 0, 0},
      {0, UINT64_MAX},
  };
  return values;
}

void mutate(Json& json, std::mt19937_64& random) {
  const std::vector<Json*> values = values_in(json);
  Json& victim = *values[random() % values.size()];
  const size_t kind = random() % 8;
  if (kind == 0 && victim.is_object() && !victim.empty()) {
    victim.erase(std::next(victim.begin(), static_cast<long>(random() % victim.size())));
  } else if (kind == 1 && victim.is_array() && !victim.empty()) {
    victim.erase(random() % victim.size());
  } else if (kind == 2 && victim.is_array() && !victim.empty()) {
    victim.push_back(Json(victim[random() % victim.size()]));
  } else if (kind == 3) {
    victim = Json(*values[random() % values.size()]);
  } else if (kind == 4 && victim.is_number_unsigned()) {
    victim = victim.get<uint64_t>() + random() % 3 - 1;
  } else {
    victim = odd_values()[random() % odd_values().size()];
  }
}

TEST_CASE("damaged indexes with a checksum that fits are read, or refused in one line") {
  std::mt19937_64 random(1);
  const Json good = Json::parse(to_text(
      whole_index({1, 2, 2, 3, 1}, {.pipeline_size = 1, .data_size = 2, .tensor_size = 2})));
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
