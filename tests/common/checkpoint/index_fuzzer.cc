// Any text is an index or a UserError of one line that names the file: nothing else. The checksum
// of a text is replaced by one that fits, or mutation would hardly ever come past it.
#include <cstdint>
#include <cstdlib>

#include "kernels/runtime/check.h"
#include "tests/common/checkpoint/indexes.h"

namespace {

using Json = nlohmann::json;

void require(bool condition) {
  if (!condition) std::abort();
}

void try_to_parse(const std::string& text) {
  constexpr const char* kPath = "checkpoint.json";
  try {
    const ladder::CheckpointIndex index = ladder::parse_index(text, kPath);
    // What has been read is written so that it is read as the same again.
    const std::string written = to_text(index);
    require(to_text(ladder::parse_index(written, kPath)) == written);
  } catch (const ladder::UserError& error) {
    const std::string message = error.what();
    require(message.starts_with("checkpoint.json: ") && message.find('\n') == message.npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Json json = Json::parse(text, nullptr, false);
  const bool has_checksum = json.is_object() && json.contains("checksum");
  try_to_parse(has_checksum ? ladder::sealed(json) : text);
  return 0;
}
