// Numbers as text.
#pragma once

#include <cstdint>
#include <string>

namespace ladder {

// Returns what printf would print.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

// Writes a number with commas: 1234567 becomes "1,234,567".
std::string with_commas(uint64_t number);

// Writes a time as minutes and seconds, "0:42", or with hours, "1:07:03".
std::string clock_text(double seconds);

}  // namespace ladder
