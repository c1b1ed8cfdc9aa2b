// Texts from libFuzzer, as indexes of checkpoints.
#include <cstdint>

#include "tests/common/checkpoint/try_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const bool has_checksum = json.is_object() && json.contains("checksum");
  has_checksum ? ladder::try_index(json) : ladder::try_index_text(text);
  return 0;
}
