// How wide the terminal is, and texts that fit it.
#pragma once

#include <cstddef>
#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Returns the columns of the terminal that a descriptor goes to; 80 if it goes to none, or if the
// terminal does not say.
size_t terminal_width(int descriptor);

// Returns whether a descriptor goes to a terminal on which a line can replace another: not on
// those that call themselves dumb, such as an editor's.
bool replaces_lines(int descriptor);

// Wraps lines longer than `width` at spaces. In a table row, continuation lines are indented to the
// last column, which starts after the row's last double space. A word longer than a line is not
// broken.
std::string wrapped(const std::string& text, size_t width);

// Returns what --help prints, for the width of the terminal at standard output.
std::string help_text(const CLI::App& app);

}  // namespace ladder
