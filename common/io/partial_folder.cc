#include "common/io/partial_folder.h"

#include <fcntl.h>
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
  Abandoned found = remove_abandoned(target_, partial_path_, true);
  if (found.is_written) refuse(path_, "another run is writing it");
  left_over_ = std::move(found.stays);
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
    folder_ =
        Descriptor(open(partial_path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const std::string marked = folder_.is_open() ? mark_partial(folder_, partial_path_) : "";
    if (marked.empty()) {
      const int error = errno;
      rmdir(partial_path_.c_str());
      refuse(path_, std::strerror(error));
    }
    partial_path_ = marked;
    return;
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
    const std::string why = std::strerror(errno), kept = without_mark(partial_path_);
    // So that no later run takes it for abandoned.
    if (std::rename(partial_path_.c_str(), kept.c_str()) == 0) partial_path_ = kept;
    throw FileError(
        concat(path_, ": ", step, " failed: ", why, "; what was written is in ", partial_path_));
  };
  if (!sync_folder(folder_)) fail_step("fsync");
  if (std::rename(partial_path_.c_str(), target_.c_str()) != 0) fail_step("rename");
  sync_name(target_);
}

}  // namespace ladder
