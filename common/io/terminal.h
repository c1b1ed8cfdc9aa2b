// How wide the terminal is, and texts that fit it.
#pragma once

#include <cstddef>
#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Returns the columns of the terminal that a descriptor goes to; 80 if it goes to none, or if the
// terminal does not say.
size_t terminal_width(int descriptor);

// Breaks the lines of a text that are longer than `width`, at blanks. The rest of a line goes on
// below the last column of a table, which begins after the line's last two blanks. A word that is
// longer than a line stays whole.
std::string wrapped(const std::string& text, size_t width);

// Returns what --help prints, for the width of the terminal at standard output.
std::string help_text(const CLI::App& app);

}  // namespace ladder
