#include "common/io/partial_name.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/hash.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";
constexpr size_t kLetters = 6;  // of the random word, and of the mark

std::string letters_of(uint64_t number) {
  constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string letters;
  for (size_t i = 0; i < kLetters; ++i, number /= kAlphabet.size()) {
    letters += kAlphabet[number % kAlphabet.size()];
  }
  return letters;
}

// Returns the mark of what has this inode and had this partial name, without a folder.
std::string mark_of(const std::string& name, const struct stat& status) {
  const uint64_t inode = status.st_ino;
  return letters_of(hash_bytes(std::as_bytes(std::span(name)), inode + 1) >> 32);
}

// What lies at a path.
class Occupant {
 public:
  Occupant(const std::string& path, bool is_folder)
      : file_(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    if (fstat(file_.number(), &status_) != 0) return;
    is_right_kind_ = is_folder ? S_ISDIR(status_.st_mode) : S_ISREG(status_.st_mode);
  }
  // Returns whether `name`, which it has, is that of a partial file or folder called `of`, with
  // the mark.
  bool is_marked(const std::string& name, const std::string& of) const {
    const size_t size = of.size() + kPartial.size() + kLetters;
    if (!is_right_kind_ || name.size() != size + kLetters || !name.starts_with(of)) return false;
    return name.compare(of.size(), kPartial.size(), kPartial) == 0 &&
           name.substr(size) == mark_of(name.substr(0, size), status_);
  }
  // Tries to lock it until this object is destroyed.
  Lock lock() const {
    if (!is_right_kind_) return Lock::unavailable;
    if (flock(file_.number(), LOCK_EX | LOCK_NB) == 0) return Lock::taken;
    return errno == EWOULDBLOCK ? Lock::held_elsewhere : Lock::unavailable;
  }

 private:
  Descriptor file_;
  struct stat status_ = {};
  bool is_right_kind_ = false;
};

}  // namespace

std::string partial_name(const std::string& target) {
  std::random_device random;
  return concat(target, kPartial, letters_of(random()));
}

std::string mark_partial(const Descriptor& file, const std::string& path) {
  struct stat status;
  if (fstat(file.number(), &status) != 0) return "";
  while (flock(file.number(), LOCK_EX) != 0 && errno == EINTR) continue;
  const std::string marked = path + mark_of(fs::path(path).filename(), status);
  return std::rename(path.c_str(), marked.c_str()) == 0 ? marked : "";
}

std::string without_mark(const std::string& marked) {
  return marked.substr(0, marked.size() - kLetters);
}

bool is_in_partial_folder(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  for (int above = 0; above < 2; ++above, folder = folder.parent_path()) {
    const std::string name = folder.filename(), of = name.substr(0, name.rfind(kPartial));
    if (of.size() < name.size() && Occupant(folder, true).is_marked(name, of)) return true;
  }
  return false;
}

Lock try_lock(const std::string& path, bool is_folder) { return Occupant(path, is_folder).lock(); }

Abandoned remove_abandoned(const std::string& target, const std::string& own, bool is_folder) {
  const fs::path folder = fs::path(target).parent_path();
  const std::string name = fs::path(target).filename();
  Abandoned found;
  std::error_code error;
  fs::directory_iterator at(folder.empty() ? "." : folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const fs::path path = at->path();
    const std::string other = path.filename();
    if (!other.starts_with(name) || other == fs::path(own).filename()) continue;
    const Occupant occupant(path, is_folder);
    if (!occupant.is_marked(other, name)) continue;
    const Lock lock = occupant.lock();
    found.is_written |= lock == Lock::held_elsewhere;
    std::error_code kept;
    if (lock == Lock::taken) fs::remove_all(path, kept);
    if (kept) found.stays.push_back(concat(path.string(), ": ", kept.message()));
    if (lock == Lock::unavailable) {
      found.stays.push_back(concat(path.string(), ": its file system has no locks"));
    }
  }
  return found;
}

}  // namespace ladder
