// What must hold of any text that may be the index of a checkpoint.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/runtime/check.h"
#include "tests/common/checkpoint/indexes.h"

namespace ladder {

// Any text is an index, or a UserError of one line that names the file: nothing else. Aborts, as a
// fuzzer expects it, if that is not so.
inline void try_index_text(const std::string& text) {
  constexpr const char* kPath = "checkpoint.json";
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  try {
    const CheckpointIndex index = parse_index(text, kPath);
    // What has been read is written so that it is read as the same again.
    const std::string written = to_text(index);
    require(to_text(parse_index(written, kPath)) == written);
  } catch (const UserError& error) {
    const std::string message = error.what();
    require(message.starts_with("checkpoint.json: ") && message.find('\n') == message.npos);
  }
}

// Tries an index that has been changed. Its checksum is replaced by one that fits, or mutation
// would hardly ever get past it.
inline void try_index(nlohmann::json json) {
  const bool has_checksum = json.is_object() && json.contains("checksum");
  try_index_text(has_checksum ? sealed(std::move(json)) : json.dump());
}

}  // namespace ladder
