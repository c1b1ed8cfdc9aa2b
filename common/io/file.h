// Files as the operating system sees them: a read-only map, and a file that appears only when
// whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/io/descriptor.h"

namespace ladder {

// A file's bytes, mapped read-only for the life of the object.
class MappedFile {
 public:
  // UserError, naming `path`: missing, unreadable, not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// A new file at `path`. It is written as `path`.partial-XXXXXX beside it, which nobody else has,
// and gets its name when publish() or commit() is called. Whatever fails before, a file that was at
// `path` stays as it was. Where `path` is a link, the file that it leads to is replaced, not the
// link. The file is locked (flock) while this object lives.
class PartialFile {
 public:
  // Removes what killed runs have left of the same file: partial files that nobody holds locked.
  // UserError, naming the path: the partial file cannot be created; `path` is a folder, a device or
  // a pipe, or where this program's standard output goes; another run is writing the file.
  explicit PartialFile(const std::string& path);
  // Without publish() or commit(), removes the partial file.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // Appends. Throws Error where not everything can be written, such as on a full disk; then nothing
  // of it is in the file. REQUIRES: not committed.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Brings the bytes to the disk, then gives the file its name. More may be written afterwards.
  // Throws Error if any step fails. REQUIRES: neither published nor committed.
  void publish();
  // Brings the bytes to the disk, gives the file its name if it has not got it, and closes it.
  // Throws Error if any step fails. REQUIRES: not committed.
  void commit();

 private:
  enum class State { partial, published, committed };

  // Creates the partial file. `target` is `path` without links.
  PartialFile(const std::string& path, const std::string& target);
  void create();
  void remove_abandoned() const;
  void sync() const;

  std::string path_;    // as the caller gave it, for messages
  std::string target_;  // where the file belongs
  std::string partial_path_;
  Descriptor descriptor_;
  size_t size_ = 0;
  State state_ = State::partial;
};

}  // namespace ladder
