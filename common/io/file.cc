#include "common/io/file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {

InputFile::InputFile(const std::string& path, const std::string& flag)
    : path_(path), name_(flag.empty() ? path : concat(flag, " ", path)) {
  // Opening a pipe would wait for its other end. With O_NONBLOCK it returns, and the pipe is
  // refused below.
  file_ = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file_.is_open() || fstat(file_.number(), &opened_) != 0) {
    throw UserError(concat(name_, ": cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(opened_.st_mode)) {
    throw UserError(concat(name_, ": is ", kind_of(opened_), ", expected a regular file"));
  }
}

void InputFile::read(size_t begin, std::span<std::byte> into) const {
  check(begin <= size() && into.size() <= size() - begin, "InputFile::read: beyond the file's end");
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = pread(file_.number(), into.data() + done, into.size() - done,
                                static_cast<off_t>(begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError(concat(name_, ": cannot be read: ", std::strerror(errno)));
    if (count == 0) break;  // it has become shorter
    done += static_cast<size_t>(count);
  }
  // The system notes the time of a write before it writes. So bytes that were read before the file
  // still had its old time are the old ones.
  struct stat now = {};
  const auto same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  if (fstat(file_.number(), &now) == 0 && done == into.size() && now.st_size == opened_.st_size &&
      same(now.st_mtim, opened_.st_mtim)) {
    return;
  }
  throw FileError(concat(name_, ": was written to while it was being read: it had ", size(),
                         " bytes and now has ", now.st_size,
                         "; what is read must stay as it is until the end, so write to a copy"));
}

std::string InputFile::text(size_t begin, size_t count) const {
  std::string bytes(begin < size() ? std::min(count, size() - begin) : 0, '\0');
  if (!bytes.empty()) read(begin, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string read_file(const std::string& path) {
  const InputFile file(path);
  return file.text(0, file.size());
}

}  // namespace ladder
