// How libFuzzer changes indexes: half of the time by their fields, otherwise byte by byte.
#include <cstdint>
#include <cstring>

#include "tests/common/checkpoint/mutate.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using Json = nlohmann::json;
  std::mt19937_64 random(seed);
  Json json = Json::parse(data, data + size, nullptr, false);
  // A text that is no JSON any more is rarely worth another change.
  if (!json.is_object() && random() % 8 != 0) json = Json::parse(ladder::short_text());
  if (!json.is_object() || random() % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  ladder::mutate(json, random);
  const std::string text = json.dump();
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
