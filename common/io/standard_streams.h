// The descriptors 0, 1 and 2 as the program finds them.
#pragma once

#include <string_view>

namespace ladder {

// To be called before any file is opened. Where standard input, output or error is closed, opens
// /dev/null there: else the next file would get its number, and what the program says would go into
// that file. Makes writing to a pipe that nobody reads any more an error instead of a signal, so
// that it can be reported.
void prepare_standard_streams();

// Writes `text` to standard output at once. Throws Error where it cannot be written.
void print(std::string_view text);

}  // namespace ladder
