#include "common/io/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/io/path.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Opens the pipe or device at `path`.
Descriptor open_stream(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe waits for its reader, perhaps for ever.
  Descriptor stream(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!stream.is_open() && errno == ENXIO) {
    throw UserError(concat(path, ": nobody reads this pipe; start its reader first"));
  }
  if (!stream.is_open())
    throw UserError(concat(path, ": cannot be written: ", std::strerror(errno)));
  fcntl(stream.number(), F_SETFL, fcntl(stream.number(), F_GETFL) & ~O_NONBLOCK);
  return stream;
}

}  // namespace

LineFile::LineFile(const std::string& path, const Kept& kept) : path_(path) {
  struct stat status;
  const bool is_there = stat(path.c_str(), &status) == 0;
  const std::optional<int> ours = is_there ? standard_stream_of(status) : std::nullopt;
  if (ours) {
    stream_ = Descriptor(fcntl(*ours, F_DUPFD_CLOEXEC, 0));
    if (!stream_.is_open()) fail(concat(path, ": cannot be opened: ", std::strerror(errno)));
  } else if (is_there && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))) {
    stream_ = open_stream(path);
  } else {
    file_.emplace(path);
    if (is_there && kept) keep(kept);
  }
}

void LineFile::keep(const Kept& kept) {
  const std::string text = read_file(path_);
  file_->write(std::string_view(text).substr(0, kept(text)));
}

void LineFile::write(std::string_view line) {
  if (file_) {
    file_->write(line);
    if (!has_name_) file_->publish();
    has_name_ = true;
    return;
  }
  if (!stream_.write_all(std::as_bytes(std::span(line)))) {
    throw FileError(concat(path_, ": write failed: ", std::strerror(errno)));
  }
}

void LineFile::finish() {
  if (file_) file_->commit();
}

}  // namespace ladder
