// A folder that stands for the root of a machine, for tests of what is read from /proc and /sys.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace ladder {

using Files = std::map<std::string, std::string>;  // from a path below the root to its text

// Returns the path of a folder that has these files and no others. The next call replaces it.
inline std::string root_with(const Files& files) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(std::getenv("TEST_TMPDIR")) / "root";
  fs::remove_all(root);
  for (const auto& [path, text] : files) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  return root.string();
}

}  // namespace ladder
