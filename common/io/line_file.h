// Text that grows line by line and can be read meanwhile.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/io/file.h"

namespace ladder {

// Lines on their way to a file or a stream.
//   A file gets its name with the first line, and a file that was there goes then, not before. From
//   then on it has whole lines only, whatever happens. It is written through a link, and locked
//   while this object lives.
//   A pipe, a terminal, another character device, or where the program's own standard output goes:
//   lines are added to what goes there.
class LineFile {
 public:
  // UserError, naming the path: it cannot be written, is a folder, a socket or a disk, or is a pipe
  // that nobody reads; another run is writing the file.
  explicit LineFile(const std::string& path);

  // `line` ends with a line break. Throws Error when the disk is full or the pipe's reader has gone
  // (REQUIRES for the latter: SIGPIPE is ignored).
  void write(std::string_view line);
  // Brings the file to the disk. Throws Error if that fails. REQUIRES: the last call.
  void finish();

 private:
  std::string path_;
  Descriptor stream_;                // where it is no regular file
  std::optional<PartialFile> file_;  // else
  bool has_name_ = false;
};

}  // namespace ladder
