#include "tests/tree/includes.h"

#include <regex>

#include "tests/tree/tree.h"

namespace ladder {

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]*)[>"].*)re");
  std::vector<Include> includes;
  for (const std::string& line : lines_of(text)) {
    std::smatch match;
    if (std::regex_match(line, match, kInclude)) includes.push_back({match[2], match[1] == "\""});
  }
  return includes;
}

}  // namespace ladder
