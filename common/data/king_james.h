// The King James text: plain ASCII, one verse a line ("Ge1:1 In the beginning ..."), public domain.
#pragma once

#include <string_view>

namespace ladder {

// Returns the whole text, 4.4 MB, which is compiled in. It is made at build time by Debian's
// package bible-kjv.
std::string_view king_james_text();

}  // namespace ladder
