// A folder that a run writes files into.
#pragma once

#include <string>
#include <vector>

#include "common/io/descriptor.h"

namespace ladder {

// Only one run at a time may write into a LockedFolder, so the folder is locked (flock) while this
// object lives, if its file system has locks.
class LockedFolder {
 public:
  // Makes the folder, and the folders above it, if they are missing. A link to a folder will do.
  // Throws a UserError of one line that begins with the path, or with `flag` and the path if there
  // is one, if the folder cannot be made or written, or if another run is writing there.
  explicit LockedFolder(const std::string& path, const std::string& flag = "");
  // Removes the folders that the constructor made, if they are empty.
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  const std::string& path() const { return path_; }
  // Returns the names of what lies in the folder, sorted. Throws a UserError if it cannot be read.
  std::vector<std::string> names() const;
  // Brings the names in the folder to the disk. Throws Error if that fails.
  void sync() const;
  // Throws a UserError that begins as those of the constructor.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  // Sets the members. `shown` is what messages begin with.
  struct Unlocked {};
  LockedFolder(Unlocked, const std::string& path, const std::string& shown)
      : path_(path), shown_(shown) {}
  // Makes the folders that are missing, and brings their names to the disk.
  void make();
  // Returns whether what is open is what the path leads to.
  bool is_there() const;

  std::string path_, shown_;
  std::vector<std::string> made_;  // the folders that the constructor made, deepest first
  Descriptor folder_;
};

}  // namespace ladder
