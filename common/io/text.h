// Numbers as text, and text as words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// Returns what printf would print.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

// Writes a number with commas: 1234567 becomes "1,234,567".
std::string with_commas(uint64_t number);

// Writes a number with as few digits as it takes to read it back.
std::string shortest_text(double number);
// Writes a time as minutes and seconds, "0:42", or with hours, "1:07:03".
std::string clock_text(double seconds);

// Returns what blanks and line breaks separate: "--steps 2" becomes "--steps", "2".
std::vector<std::string> words_of(const std::string& text);
// Returns the text without the byte order mark that some editors write before it.
std::string_view without_mark(std::string_view text);
// Splits a list at its commas: "1,,2" becomes "1", "" and "2".
std::vector<std::string> items_of(const std::string& list);

}  // namespace ladder
