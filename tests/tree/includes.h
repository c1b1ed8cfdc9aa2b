// What a file includes.
#pragma once

#include <string>
#include <vector>

namespace ladder {

struct Include {
  std::string path;
  bool quoted;  // "..." and not <...>
};

std::vector<Include> includes_of(const std::string& text);

}  // namespace ladder
