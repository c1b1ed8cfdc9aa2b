// Makes text from outside (names in files, paths, a model's samples) safe to print: a terminal
// would obey the control characters in it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// Returns `bytes` with '?' in place of each byte that does not print: control characters other than
// line breaks and tabs, bytes that are not UTF-8, and characters that reorder the text around them
// (U+202A to U+202E, U+2066 to U+2069) or break its line (U+2028, U+2029). [RFC 3629]
std::string printable(std::string_view bytes);

// Returns `bytes` as one line of at most about 2,000 bytes, for messages. What printable()
// replaces, and line breaks and tabs, are written as \n, \t or \x1b. A longer text loses its
// middle.
std::string one_line(std::string_view bytes);

// Returns the items so, with `separator` between them.
std::string listed(const std::vector<std::string>& items, std::string_view separator = ", ");

// Returns a name from a file for messages: in double quotes, in printable ASCII, cut after 100
// bytes.
std::string quoted_name(std::string_view name);

// Returns what is wrong, as messages say it. What the standard library or the one for JSON throws
// has the names of their functions in its text; here only the path, and what the system says, are
// left of it.
std::string said(const std::exception& error);

}  // namespace ladder
