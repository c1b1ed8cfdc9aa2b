#include "common/io/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/io/path.h"

namespace ladder {

void GrowingFile::fail_step(const char* step) const {
  throw FileError(concat(path_, ": ", step, " failed: ", std::strerror(errno)));
}

void GrowingFile::write(std::span<const std::byte> bytes) {
  if (!file_.write_all(bytes)) {
    const int error = errno;
    [[maybe_unused]] const int cut = ftruncate(file_.number(), static_cast<off_t>(size_));
    errno = error;
    fail_step("write");
  }
  size_ += bytes.size();
}

void GrowingFile::sync() const {
  if (fsync(file_.number()) != 0) fail_step("fsync");
}

void GrowingFile::bypass_cache(bool bypass) const {
  const int flags = fcntl(file_.number(), F_GETFL);
  fcntl(file_.number(), F_SETFL, bypass ? flags | O_DIRECT : flags & ~O_DIRECT);
}

void GrowingFile::close() {
  if (::close(file_.release()) != 0) fail_step("close");
}

}  // namespace ladder
