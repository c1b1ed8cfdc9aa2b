#include "common/io/locked_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/io/partial_name.h"
#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {

namespace fs = std::filesystem;

void LockedFolder::make() {
  std::error_code error;
  std::vector<std::string> missing;
  for (fs::path at = path_; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    missing.push_back(at);
  }
  if (fs::is_symlink(path_, error) && !fs::exists(path_, error))
    refuse("it is a link that leads nowhere");
  fs::create_directories(path_, error);
  if (error) refuse(concat("cannot be written: ", error.message()));
  made_.insert(made_.end(), missing.begin(), missing.end());
  for (const std::string& folder : missing) sync_name(folder);
}

bool LockedFolder::is_there() const {
  struct stat open_one, named_one;
  return fstat(folder_.number(), &open_one) == 0 && stat(path_.c_str(), &named_one) == 0 &&
         open_one.st_dev == named_one.st_dev && open_one.st_ino == named_one.st_ino;
}

LockedFolder::LockedFolder(const std::string& path, const std::string& flag)
    : LockedFolder(Unlocked(), path, flag.empty() ? path : concat(flag, " ", path)) {
  // From here on the destructor runs, and removes the folders, even if this throws.
  const auto refuse_writing = [&] { refuse(concat("cannot be written: ", std::strerror(errno))); };
  // Before it is locked, the run that has made it may end and remove it.
  constexpr int kTries = 100;
  for (int attempt = 0; attempt < kTries && !is_there(); ++attempt) {
    make();
    folder_ = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_.is_open() && errno != ENOENT) refuse_writing();
    if (flock(folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      made_.clear();  // they are that run's now
      refuse("another run is writing there; name a folder for each");
    }
  }
  // Find out now, not after the first steps, whether anything can be made in it.
  const std::string probe = partial_name(path + "/probe");
  if (mkdir(probe.c_str(), 0777) != 0) refuse_writing();
  rmdir(probe.c_str());
}

LockedFolder::~LockedFolder() {
  for (const std::string& folder : made_) rmdir(folder.c_str());
}

std::vector<std::string> LockedFolder::names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error) refuse(concat("cannot be read: ", error.message()));
  std::ranges::sort(names);
  return names;
}

void LockedFolder::sync() const {
  if (!sync_folder(folder_)) {
    throw FileError(concat(path_, ": fsync failed: ", std::strerror(errno)));
  }
}

void LockedFolder::refuse(const std::string& why) const {
  throw UserError(concat(shown_, ": ", why));
}

}  // namespace ladder
