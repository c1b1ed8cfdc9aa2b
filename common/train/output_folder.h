// A folder that a run writes files into.
#pragma once

#include <string>
#include <vector>

#include "common/io/descriptor.h"

namespace ladder {

// Only one run at a time may write into an OutputFolder, so the folder is locked (flock) while this
// object lives, if its file system has locks.
class OutputFolder {
 public:
  // Makes the folder, and the folders above it, if they are missing. `flag` gave the path, and
  // `file` is the name of a file that the run may write there. Throws a UserError that names the
  // flag if the folder cannot be made, if that file cannot, or if another run is writing there.
  OutputFolder(const char* flag, const std::string& path, const std::string& file);
  // Removes the folders that the constructor made, if they are empty.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::string& path() const { return path_; }
  // Returns the names of what lies in the folder, sorted. Throws a UserError if it cannot be read.
  std::vector<std::string> names() const;
  // Throws a UserError that begins with the flag and the path.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  // Makes the folders.
  OutputFolder(const char* flag, const std::string& path);

  const char* flag_;
  std::string path_;
  std::vector<std::string> made_;  // the folders that the constructor made, deepest first
  Descriptor folder_;
};

}  // namespace ladder
