// What is in a picture, found in its text.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace ladder::testing {

// The rectangles and frames of a class, as "x y width height", in the order in which they are
// drawn.
inline std::vector<std::string> rects_of(const std::string& svg, const std::string& name) {
  const std::regex rect("<rect class=\"" + name +
                        R"re(" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)")re");
  std::vector<std::string> found;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), rect); at != std::sregex_iterator();
       ++at) {
    found.push_back((*at)[1].str() + " " + (*at)[2].str() + " " + (*at)[3].str() + " " +
                    (*at)[4].str());
  }
  return found;
}

// How often the picture says just this.
inline size_t count_text(const std::string& svg, const std::string& text) {
  size_t count = 0;
  const std::string element = ">" + text + "</text>";
  for (size_t at = svg.find(element); at != std::string::npos; at = svg.find(element, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace ladder::testing
