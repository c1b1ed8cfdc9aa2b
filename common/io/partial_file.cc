#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "common/io/file.h"
#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".partial-";
constexpr size_t kRandomLetters = 6;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UserError(concat(path, ": cannot be written: ", why));
}

std::string random_letters() {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string text;
  for (size_t i = 0; i < kRandomLetters; ++i) text += kLetters[random() % kLetters.size()];
  return text;
}

// Returns whether `name` is the name of a partial file of the file called `of`.
bool is_partial_name(const std::string& name, const std::string& of) {
  return name.size() == of.size() + kMark.size() + kRandomLetters && name.starts_with(of) &&
         name.compare(of.size(), kMark.size(), kMark) == 0;
}

enum class Lock { taken, held_elsewhere, unavailable };

// Opens the regular file at a path, if there is one, and tries to lock it. On a file system without
// locks the file counts as not locked by others.
class Occupant {
 public:
  explicit Occupant(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    struct stat status;
    if (fstat(file_.number(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    const bool locked = flock(file_.number(), LOCK_EX | LOCK_NB) == 0;
    lock_ = locked ? Lock::taken : errno == EWOULDBLOCK ? Lock::held_elsewhere : Lock::unavailable;
  }
  Lock lock() const { return lock_; }

 private:
  Descriptor file_;
  Lock lock_ = Lock::unavailable;
};

}  // namespace

PartialFile::PartialFile(const std::string& path) : PartialFile(path, without_links(path)) {
  // From here on the destructor runs, and removes the partial file, even if this throws.
  remove_abandoned();
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
    if (Occupant(target).lock() == Lock::held_elsewhere) refuse(path, "another run is writing it");
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
    partial_path_ = concat(target_, kMark, random_letters());
    Descriptor file(open(partial_path_.c_str(),
                         O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.is_open() && errno == EEXIST) continue;
    if (!file.is_open()) refuse(path_, std::strerror(errno));
    // Before the file is locked, another run may take it for abandoned and remove it.
    struct stat status;
    while (flock(file.number(), LOCK_EX) != 0 && errno == EINTR) continue;
    const bool is_there = fstat(file.number(), &status) == 0 && status.st_nlink > 0;
    file_ = GrowingFile(std::move(file), path_);
    if (is_there) return;
  }
  refuse(path_, "no name for a partial file is free");
}

void PartialFile::remove_abandoned() const {
  const fs::path folder = fs::path(target_).parent_path();
  const std::string name = fs::path(target_).filename();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (!is_partial_name(entry.path().filename(), name)) continue;
    if (entry.path().filename() == fs::path(partial_path_).filename()) continue;
    const Occupant other(entry.path());
    if (other.lock() == Lock::held_elsewhere) refuse(path_, "another run is writing it");
    if (other.lock() == Lock::taken) unlink(entry.path().c_str());
  }
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
    throw Error(concat(path_, ": rename failed: ", std::strerror(errno)));
  }
  state_ = State::published;
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
