#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/io/file.h"
#include "common/io/partial_name.h"
#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTaken = "another run is writing it";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UserError(concat(path, ": cannot be written: ", why));
}

[[noreturn]] void fail_step(const std::string& path, const char* step) {
  throw Error(concat(path, ": ", step, " failed: ", std::strerror(errno)));
}

}  // namespace

PartialFile::PartialFile(const std::string& path) : PartialFile(path, without_links(path)) {
  // From here on the destructor runs, and removes the partial file, even if this throws.
  if (remove_abandoned(target_, partial_path_, false)) refuse(path_, kTaken);
}

PartialFile::PartialFile(const std::string& path, const std::string& target)
    : path_(path), target_(target) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      refuse(path, concat("it is ", kind_of(status), ", expected a regular file"));
    }
    if (standard_stream_of(status)) {
      refuse(path, "what this program prints goes there; give it a file of its own");
    }
    if (try_lock(target, false) == Lock::held_elsewhere) refuse(path, kTaken);
  }
  if (fs::path(target).filename().empty()) refuse(path, "it names a folder, expected a file");
  if (lstat(target.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    refuse(path, std::strerror(ELOOP));
  }
  create();
}

void PartialFile::create() {
  constexpr int kTries = 100;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    partial_path_ = partial_name(target_);
    descriptor_ =
        Descriptor(open(partial_path_.c_str(),
                        O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!descriptor_.is_open() && errno == EEXIST) continue;
    if (!descriptor_.is_open()) refuse(path_, std::strerror(errno));
    // Before the file is locked, another run may take it for abandoned and remove it.
    struct stat status;
    while (flock(descriptor_.number(), LOCK_EX) != 0 && errno == EINTR) continue;
    if (fstat(descriptor_.number(), &status) == 0 && status.st_nlink > 0) return;
  }
  refuse(path_, "no name for a partial file is free");
}

PartialFile::~PartialFile() {
  if (state_ == State::partial) unlink(partial_path_.c_str());
}

void PartialFile::write(std::span<const std::byte> bytes) {
  check(descriptor_.is_open(), "PartialFile::write: already committed");
  if (!descriptor_.write_all(bytes)) {
    const int error = errno;
    // Without this, a reader would find a line that is cut off.
    [[maybe_unused]] const int cut = ftruncate(descriptor_.number(), static_cast<off_t>(size_));
    errno = error;
    fail_step(path_, "write");
  }
  size_ += bytes.size();
}

void PartialFile::sync() const {
  if (fsync(descriptor_.number()) != 0) fail_step(path_, "fsync");
}

void PartialFile::publish() {
  check(state_ == State::partial, "PartialFile::publish: the file has its name");
  sync();  // before the rename: after a power cut the name must not stand on an empty file
  if (std::rename(partial_path_.c_str(), target_.c_str()) != 0) fail_step(path_, "rename");
  state_ = State::published;
}

void PartialFile::commit() {
  check(state_ != State::committed, "PartialFile::commit: already committed");
  if (state_ == State::partial) {
    publish();
  } else {
    sync();
  }
  state_ = State::committed;
  if (close(descriptor_.release()) != 0) fail_step(path_, "close");
}

}  // namespace ladder
