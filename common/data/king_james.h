// The King James text: plain ASCII, one verse a line ("Ge1:1 In the beginning ..."), public domain.
#pragma once

#include <string_view>

namespace ladder {

// The whole text, 4.4 MB, compiled in. It is made at build time by Debian's package bible-kjv.
std::string_view king_james_text();

}  // namespace ladder
