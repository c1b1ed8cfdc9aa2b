// A file that is written line by line and can be read meanwhile.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/io/file.h"

namespace ladder {

// LineFile writes lines to a file or to a stream.
//   A regular file gets its name with the first line; only then does it replace a file that was
//   there. From then on it has only whole lines, whatever happens. If the path is a link, the file
//   that it leads to is replaced. The file is locked while this object lives.
//   A stream is a pipe, a terminal, another character device, or the file to which the program's
//   own standard output goes. Lines are added to it.
class LineFile {
 public:
  // Gets the text of the regular file that is there, and returns how many bytes of it the new file
  // begins with. Without such a function the new file begins with the first line that is written.
  using Kept = std::function<size_t(std::string_view text)>;

  // Throws a UserError that names the path if it cannot be written, if it is a folder, a socket, a
  // disk, or a pipe that no process reads, or if another run is writing the file.
  explicit LineFile(const std::string& path, const Kept& kept = {});

  // Writes a line, which ends with a line break. Throws an Error if the disk is full, or if the
  // reader of the pipe has gone. For the latter SIGPIPE must be ignored.
  void write(std::string_view line);
  // Brings the file to the disk. Throws an Error if that fails. REQUIRES: it is the last call.
  void finish();

 private:
  // Copies the first kept(text) bytes of the file that is there.
  void keep(const Kept& kept);

  std::string path_;
  Descriptor stream_;                // open if the path is a stream
  std::optional<PartialFile> file_;  // set if the path is a regular file
  bool has_name_ = false;
};

}  // namespace ladder
