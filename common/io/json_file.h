// Reads JSON that other programs wrote.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ladder {

// Reads a file that holds one JSON object. Throws a UserError of one line that begins with the path
// if the file cannot be read or has more than `max_bytes`, if it is not such a file in UTF-8, if an
// object in it has the same key twice, or if objects and arrays nest more than 64 deep.
nlohmann::json read_json_object(const std::string& path, size_t max_bytes);

// Returns a value for messages: as JSON in printable ASCII, cut after 100 bytes. REQUIRES: a value
// that read_json_object() has read, which does not nest too deep to be written.
std::string shown(const nlohmann::json& value);

}  // namespace ladder
