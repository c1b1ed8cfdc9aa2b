// A folder for the files of one test.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ladder {

// New and empty; removed, with all that is in it, when the object goes.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file into the folder and returns its absolute path.
  std::string write(const std::string& name, const std::string& content) const;

  // All files in it and below, by path from the folder, sorted.
  std::vector<std::string> files() const;

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& path);

}  // namespace ladder
