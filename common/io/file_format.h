// Recognizes files of other formats than the one that is wanted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ladder {

// What a file is read for: weights (--init), or a text or token shards (--data).
enum class Wanted { weights, data };

// So many of the first bytes of a file are enough to recognize it.
constexpr size_t kFormatBytes = 512;

// Says which format a file seems to have, and what to do with it if weights or data are wanted, as
// in "a GGUF file, as llama.cpp reads; ...". `head` has the first bytes of the file. Returns an
// empty text if the format is not known, or if it is the wanted one: for data that is any text, a
// web page too.
std::string describe_format(std::string_view head, Wanted wanted);

}  // namespace ladder
