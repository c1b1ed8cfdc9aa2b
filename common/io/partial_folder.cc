#include "common/io/partial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/io/partial_name.h"
#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UserError(concat(path, ": cannot be written: ", why));
}

// Throws UserError unless nothing, or an empty folder, is at the path.
void require_free(const std::string& path, const std::string& target) {
  const std::string name = fs::path(target).filename();
  if (name.empty() || name == "." || name == "..")
    refuse(path, "expected the name of a new folder");
  struct stat status;
  if (lstat(target.c_str(), &status) != 0) return;  // create() finds out what else may be wrong
  if (S_ISLNK(status.st_mode)) refuse(path, "it is a symbolic link, expected a new folder");
  if (!S_ISDIR(status.st_mode)) {
    refuse(path, concat("it is ", kind_of(status), ", expected a new folder"));
  }
  std::error_code error;
  const bool is_empty = fs::is_empty(target, error);
  if (error) refuse(path, error.message());
  if (!is_empty) refuse(path, "the folder is not empty; name a new one");
}

}  // namespace

PartialFolder::PartialFolder(const std::string& path) : PartialFolder(path, without_slashes(path)) {
  // From here on the destructor runs, and removes the partial folder, even if this throws.
  if (remove_abandoned(target_, partial_path_, true)) refuse(path_, "another run is writing it");
}

PartialFolder::PartialFolder(const std::string& path, const std::string& target)
    : path_(path), target_(target) {
  require_free(path_, target_);
  create();
}

void PartialFolder::create() {
  constexpr int kTries = 100;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    partial_path_ = partial_name(target_);
    if (mkdir(partial_path_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      refuse(path_, std::strerror(errno));
    }
    folder_ = Descriptor(open(partial_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Before the folder is locked, another run may take it for abandoned and remove it.
    if (!folder_.is_open() && errno == ENOENT) continue;
    if (!folder_.is_open()) refuse(path_, std::strerror(errno));
    struct stat status;
    while (flock(folder_.number(), LOCK_EX) != 0 && errno == EINTR) continue;
    if (fstat(folder_.number(), &status) == 0 && status.st_nlink > 0) return;
  }
  refuse(path_, "no name for a partial folder is free");
}

PartialFolder::~PartialFolder() {
  std::error_code error;
  if (!is_done_) fs::remove_all(partial_path_, error);
}

void PartialFolder::commit() {
  check(!is_done_, "PartialFolder::commit: already committed");
  is_done_ = true;  // even if this fails: what was written is not lost
  const auto fail_step = [&](const char* step) {
    const std::string why = std::strerror(errno);
    throw FileError(
        concat(path_, ": ", step, " failed: ", why, "; what was written is in ", partial_path_));
  };
  if (fsync(folder_.number()) != 0) fail_step("fsync");
  if (std::rename(partial_path_.c_str(), target_.c_str()) != 0) fail_step("rename");
  const fs::path parent = fs::path(target_).parent_path();
  const Descriptor above(
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // The folder is whole and has its name. Some file systems cannot sync the folder above.
  if (above.is_open()) fsync(above.number());
}

}  // namespace ladder
