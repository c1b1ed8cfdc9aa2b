#include "common/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "common/io/descriptor.h"
#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {

MappedFile::MappedFile(const std::string& path) {
  const auto unreadable = [&] {
    throw UserError(concat(path, ": cannot be read: ", std::strerror(errno)));
  };
  // Opening a pipe would wait for its other end. With O_NONBLOCK it returns, and the pipe is
  // refused below.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) unreadable();
  struct stat status;
  if (fstat(file.number(), &status) != 0) unreadable();
  if (!S_ISREG(status.st_mode)) {
    throw UserError(concat(path, ": is ", kind_of(status), ", expected a regular file"));
  }
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // mmap refuses an empty range
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED) unreadable();
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ladder
