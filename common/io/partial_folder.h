// A folder that appears under its name only when it is whole.
#pragma once

#include <string>
#include <vector>

#include "common/io/descriptor.h"

namespace ladder {

// PartialFolder is a new folder at `path`. It is filled under the name `path`.partial-XXXXXXXXXXXX,
// which no other process uses, and gets its own name in commit(). If anything fails before that, it
// is removed with all that is in it. The folder is locked (flock) while this object lives.
class PartialFolder {
 public:
  // Creates the partial folder, and removes those that killed runs have left. Throws a UserError
  // that names the path if the folder cannot be created, if another run is writing it, or if
  // anything but an empty folder is at `path`, such as a file or a link.
  explicit PartialFolder(const std::string& path);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  // Returns the path of a file in the folder. REQUIRES: not committed.
  std::string operator/(const std::string& name) const { return partial_path_ + "/" + name; }
  const std::string& partial_path() const { return partial_path_; }
  // What killed runs have left and cannot be removed: paths, each with why.
  const std::vector<std::string>& left_over() const { return left_over_; }
  // Gives the folder its name, which the disk has when this returns. Throws an Error if that fails,
  // for example because something else is at the path by now. Then the partial folder stays, and
  // the Error names it. REQUIRES: not committed, and all files in it are closed and on the disk.
  void commit();

 private:
  // Sets the members and creates the partial folder. `target` is `path` without slashes at its end.
  PartialFolder(const std::string& path, const std::string& target);
  void create();

  std::string path_;    // the path as the caller gave it, for messages
  std::string target_;  // the path that the folder gets in the end
  std::string partial_path_;
  Descriptor folder_;
  std::vector<std::string> left_over_;
  bool is_done_ = false;  // nothing is left to remove
};

}  // namespace ladder
