// What a file of another format is.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ladder {

// What the file whose bytes are `file` looks like, by how it begins, and what to do with it where
// weights are wanted: "a GGUF file, as llama.cpp reads; ...". "" where it looks like nothing known.
std::string describe_format(std::span<const std::byte> file);

}  // namespace ladder
