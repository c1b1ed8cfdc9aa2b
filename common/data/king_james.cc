#include "common/data/king_james.h"

#include <cstdint>

// Defined by king_james.s.
extern "C" const char king_james_begin[];
extern "C" const uint64_t king_james_bytes;

namespace ladder {

std::string_view king_james_text() { return {king_james_begin, king_james_bytes}; }

}  // namespace ladder
