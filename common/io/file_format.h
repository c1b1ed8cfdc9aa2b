// Recognizes files of other formats.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ladder {

// Says which format a file seems to have, by its first bytes, and what to do with it if weights are
// wanted, as in "a GGUF file, as llama.cpp reads; ...". `file` has the bytes of the file. Returns
// an empty text if the format is not known.
std::string describe_format(std::span<const std::byte> file);

}  // namespace ladder
