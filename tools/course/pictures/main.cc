// Draws the pictures of the course anew: notes/pictures/*.svg.
//
//   bazel run //tools/course/pictures
#include <cstdlib>
#include <exception>
#include <iostream>

#include "common/io/file.h"
#include "common/io/printable.h"
#include "tools/course/pictures/pictures.h"

int main() {
  const char* const root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (root == nullptr) {
    std::cerr << "run it with bazel run //tools/course/pictures\n";
    return 2;
  }
  try {
    for (const ladder::Picture& picture : ladder::all_pictures(root)) {
      ladder::PartialFile file(std::string(root) + "/" + picture.path);
      file.write(picture.svg);
      file.commit();
      std::cout << picture.path << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << "error: " << ladder::said(error) << "\n";
    return 1;
  }
}
