#include "common/io/partial_name.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <string_view>

#include "common/io/descriptor.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".partial-";
constexpr size_t kRandomLetters = 6;

// Returns whether `name` is a partial name of a file or folder called `of`.
bool is_partial_name(const std::string& name, const std::string& of) {
  return name.size() == of.size() + kMark.size() + kRandomLetters && name.starts_with(of) &&
         name.compare(of.size(), kMark.size(), kMark) == 0;
}

// Opens what lies at a path and tries to lock it until this object is destroyed.
class Occupant {
 public:
  Occupant(const std::string& path, bool is_folder)
      : file_(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    struct stat status;
    if (fstat(file_.number(), &status) != 0) return;
    if (is_folder ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode)) return;
    const bool locked = flock(file_.number(), LOCK_EX | LOCK_NB) == 0;
    lock_ = locked ? Lock::taken : errno == EWOULDBLOCK ? Lock::held_elsewhere : Lock::unavailable;
  }
  Lock lock() const { return lock_; }

 private:
  Descriptor file_;
  Lock lock_ = Lock::unavailable;
};

}  // namespace

std::string partial_name(const std::string& target) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string text = concat(target, kMark);
  for (size_t i = 0; i < kRandomLetters; ++i) text += kLetters[random() % kLetters.size()];
  return text;
}

Lock try_lock(const std::string& path, bool is_folder) { return Occupant(path, is_folder).lock(); }

bool remove_abandoned(const std::string& target, const std::string& own, bool is_folder) {
  const fs::path folder = fs::path(target).parent_path();
  const std::string name = fs::path(target).filename();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (!is_partial_name(entry.path().filename(), name)) continue;
    if (entry.path().filename() == fs::path(own).filename()) continue;
    const Occupant other(entry.path(), is_folder);
    if (other.lock() == Lock::held_elsewhere) return true;
    if (other.lock() == Lock::taken) fs::remove_all(entry.path(), error);
  }
  return false;
}

}  // namespace ladder
