// Draws the pictures of the course anew: notes/pictures/*.svg.
//
//   bazel run //tools/pictures
#include <cstdlib>
#include <exception>
#include <iostream>

#include "common/io/file.h"
#include "tools/pictures/course_map.h"

int main() {
  const char* const root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (root == nullptr) {
    std::cerr << "run it with bazel run //tools/pictures\n";
    return 2;
  }
  try {
    const std::string path = std::string(root) + "/notes/pictures/course_map.svg";
    ladder::PartialFile file(path);
    const std::string text = ladder::course_map(ladder::read_lessons(root));
    file.write(text);
    file.commit();
    std::cout << path << "\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
