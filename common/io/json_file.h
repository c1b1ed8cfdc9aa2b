// Reads JSON strictly: whatever wrote it, an object in it has each key once.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/io/file.h"

namespace ladder {

// Returns the one JSON object that a text holds. Throws a UserError of one line that begins with
// `where`, which says where the text is from, if it holds anything else, if it is not valid JSON in
// UTF-8, if an object in it has the same key twice, or if objects and arrays nest more than 64
// deep.
nlohmann::json parse_json_object(std::string_view text, const std::string& where);

// Reads a file that holds one JSON object. Throws UserError as parse_json_object() does, and if the
// file cannot be read or has more than `max_bytes`.
nlohmann::json read_json_object(const std::string& path, size_t max_bytes);
nlohmann::json read_json_object(const InputFile& file, size_t max_bytes);

// Returns a value for messages: as JSON in printable ASCII, cut after 100 bytes. REQUIRES: a value
// that was parsed here, which does not nest too deep to be written.
std::string shown(const nlohmann::json& value);

}  // namespace ladder
