// Lines of tables.
#pragma once

#include <cstdio>
#include <string>

namespace ladder::roofline {

// Returns what std::printf would print, of which there may be 255 characters.
template <class... Args>
std::string print(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

}  // namespace ladder::roofline
