#include <fcntl.h>
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

}  // namespace

PartialFile::PartialFile(const std::string& path) : PartialFile(path, without_links(path)) {
  // From here on the destructor runs, and removes the partial file, even if this throws.
  if (remove_abandoned(target_, partial_path_, false).is_written) refuse(path_, kTaken);
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
    Descriptor file(open(partial_path_.c_str(),
                         O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.is_open() && errno == EEXIST) continue;
    if (!file.is_open()) refuse(path_, std::strerror(errno));
    const std::string marked = mark_partial(file, partial_path_);
    if (marked.empty()) {
      const int error = errno;
      unlink(partial_path_.c_str());
      refuse(path_, std::strerror(error));
    }
    partial_path_ = marked;
    file_ = GrowingFile(std::move(file), path_);
    return;
  }
  refuse(path_, "no name for a partial file is free");
}

PartialFile::~PartialFile() {
  if (state_ == State::partial) unlink(partial_path_.c_str());
}

void PartialFile::write(std::span<const std::byte> bytes) {
  check(file_.is_open(), "PartialFile::write: already committed");
  file_.write(bytes);
}

void PartialFile::publish() {
  check(state_ == State::partial, "PartialFile::publish: the file has its name");
  file_.sync();  // before the rename: after a power cut the name must not stand on an empty file
  if (std::rename(partial_path_.c_str(), target_.c_str()) != 0) {
    throw FileError(concat(path_, ": rename failed: ", std::strerror(errno)));
  }
  state_ = State::published;
  if (!is_in_partial_folder(target_)) sync_name(target_);
}

void PartialFile::commit() {
  check(state_ != State::committed, "PartialFile::commit: already committed");
  if (state_ == State::partial) {
    publish();
  } else {
    file_.sync();
  }
  state_ = State::committed;
  file_.close();
}

}  // namespace ladder
