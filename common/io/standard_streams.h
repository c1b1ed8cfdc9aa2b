// Standard input, output and error: descriptors 0, 1 and 2.
#pragma once

#include <string_view>

namespace ladder {

// Opens /dev/null as standard input, output or error if one of them is closed. Otherwise the next
// file would get its number, and the program's messages would go into that file. It also makes
// writing to a pipe whose reader has gone an error instead of a signal, so that it can be reported.
// It must be called before any file is opened.
void prepare_standard_streams();

// Writes `text` to standard output at once. Throws Error if it cannot be written.
void print(std::string_view text);

}  // namespace ladder
