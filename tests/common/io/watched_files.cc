#include "tests/common/io/watched_files.h"

// <fcntl.h> would declare open() with attributes, and define it inline in some builds. This one has
// a struct with the name of flock().
#pragma GCC diagnostic ignored "-Wshadow"
#include <linux/fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <utility>

namespace ladder {

WatchedFiles watched_files;

namespace {

std::mutex mutex;

long note(long result, const FileCall& call) {
  if (!watched_files.is_watched || result < 0) return result;
  const std::lock_guard guard(mutex);
  watched_files.calls.push_back(call);
  return result;
}

int open_file(const char* path, int flags, unsigned mode) {
  const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  note(file, {"open", file, path, "", flags});
  return file;
}

unsigned mode_in(va_list arguments, int flags) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & __O_TMPFILE) != 0;
  return has_mode ? va_arg(arguments, unsigned) : 0;
}

}  // namespace
}  // namespace ladder

// The program's own definitions go before those of the libraries.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = ladder::mode_in(arguments, flags);
  va_end(arguments);
  return ladder::open_file(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = ladder::mode_in(arguments, flags);
  va_end(arguments);
  return ladder::open_file(path, flags, mode);
}

int close(int file) {
  // Noted first: another thread may get the number at once.
  ladder::note(0, {"close", file});
  return static_cast<int>(syscall(SYS_close, file));
}

ssize_t write(int file, const void* bytes, size_t count) {
  return ladder::note(syscall(SYS_write, file, bytes, count), {"write", file});
}

int fsync(int file) {
  return static_cast<int>(ladder::note(syscall(SYS_fsync, file), {"fsync", file}));
}

int flock(int file, int operation) noexcept {
  const auto before = std::exchange(ladder::watched_files.before_lock, nullptr);
  if (before) before();
  const ladder::FileCall call = {"flock", file, "", "", operation};
  return static_cast<int>(ladder::note(syscall(SYS_flock, file, operation), call));
}

int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(ladder::note(syscall(SYS_rename, from, to), {"rename", -1, from, to}));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(ladder::note(syscall(SYS_mkdir, path, mode), {"mkdir", -1, path}));
}

}  // extern "C"
