#include "common/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Closes a descriptor at the end of a scope.
struct Closer {
  int descriptor;
  ~Closer() { close(descriptor); }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const auto unreadable = [&] {
    throw UserError(concat(path, ": cannot be read: ", std::strerror(errno)));
  };
  // Opening a pipe would wait for its other end; O_NONBLOCK makes it return, to be refused below.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) unreadable();
  const Closer closer{descriptor};
  struct stat status;
  if (fstat(descriptor, &status) != 0) unreadable();
  if (!S_ISREG(status.st_mode)) throw UserError(concat(path, ": is not a regular file"));
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // mmap refuses an empty range
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) unreadable();
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

PartialFile::PartialFile(const std::string& path) : path_(path), partial_path_(path + ".partial") {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw UserError(concat(path, ": cannot be written: it exists and is not a regular file"));
  }
  descriptor_ = open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw UserError(concat(path, ": cannot be written: ", std::strerror(errno)));
  }
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_) unlink(partial_path_.c_str());
}

void PartialFile::write(std::span<const std::byte> bytes) {
  check(descriptor_ >= 0, "PartialFile::write: already committed");
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(concat(partial_path_, ": write failed: ", std::strerror(errno)));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void PartialFile::commit() {
  check(descriptor_ >= 0, "PartialFile::commit: already committed");
  // The bytes before the name: after a power cut the name must not stand on an empty file.
  if (fsync(descriptor_) != 0) {
    fail(concat(partial_path_, ": fsync failed: ", std::strerror(errno)));
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) {
    fail(concat(partial_path_, ": close failed: ", std::strerror(errno)));
  }
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    fail(concat(partial_path_, ": cannot be renamed to ", path_, ": ", std::strerror(errno)));
  }
  committed_ = true;
}

}  // namespace ladder
