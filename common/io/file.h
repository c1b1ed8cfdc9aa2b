// Two kinds of files: one that is mapped read-only, and one that appears under its name only when
// it is whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/io/growing_file.h"

namespace ladder {

// MappedFile has a file's bytes, mapped read-only until the object is destroyed.
class MappedFile {
 public:
  // Throws a UserError that names `path` if the file is missing, unreadable or not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Returns the file's bytes as text, which is valid as long as the file.
inline std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// PartialFile is a new file at `path`. It is written under the name `path`.partial-XXXXXX, which no
// other process uses, and gets its own name when publish() or commit() is called. If anything fails
// before that, a file that was at `path` stays as it was. If `path` is a link, the file that it
// leads to is replaced, not the link. The file is locked (flock) while this object lives.
class PartialFile {
 public:
  // Creates the partial file, and removes those that killed runs have left: partial files of the
  // same name that no process has locked. Throws a UserError that names the path if the file cannot
  // be created, if `path` is a folder, a device, a pipe, or the file to which this program's
  // standard output goes, or if another run is writing the file.
  explicit PartialFile(const std::string& path);
  // Removes the partial file if it has not been published or committed.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // Appends bytes. If not all of them can be written, for example because the disk is full, it
  // throws an Error, and none of them are in the file. REQUIRES: not committed.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // As GrowingFile::bypass_cache().
  void bypass_cache(bool bypass) const { file_.bypass_cache(bypass); }
  // Brings the bytes to the disk (fsync), then gives the file its name. More may be written
  // afterwards. Throws an Error if any step fails. REQUIRES: neither published nor committed.
  void publish();
  // Brings the bytes to the disk, gives the file its name unless it has it already, and closes it.
  // Throws an Error if any step fails. REQUIRES: not committed.
  void commit();

 private:
  enum class State { partial, published, committed };

  // Sets the members and creates the partial file. `target` is `path` without links.
  PartialFile(const std::string& path, const std::string& target);
  void create();

  std::string path_;    // the path as the caller gave it, for messages
  std::string target_;  // the path that the file gets in the end
  std::string partial_path_;
  GrowingFile file_;
  State state_ = State::partial;
};

}  // namespace ladder
