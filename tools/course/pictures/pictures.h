// All pictures of the course that are drawn from the tree itself.
#pragma once

#include <string>
#include <vector>

namespace ladder {

struct Picture {
  std::string path;  // from the root: "notes/pictures/course_map.svg"
  std::string svg;
};

// `root`: of the source tree, of which the lessons' BUILD files and the traces that were recorded
// are read. UserError: one of them is missing or damaged.
std::vector<Picture> all_pictures(const std::string& root);

}  // namespace ladder
