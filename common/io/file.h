// Two kinds of files: one that is read, and one that appears under its name only when it is whole.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/io/descriptor.h"
#include "common/io/growing_file.h"

namespace ladder {

// InputFile is a regular file that is open for reading. Its bytes are read and not mapped: touching
// a mapped page of a file that has become shorter ends the process by SIGBUS, without a word. The
// system keeps the pages of a file that several ranks read once for all of them, and a read takes a
// few microseconds.
class InputFile {
 public:
  // Opens the file. `flag` is the flag that names it, for messages, which begin with "FLAG PATH: ".
  // Throws a UserError if the file is missing, unreadable or not a regular file.
  explicit InputFile(const std::string& path, const std::string& flag = "");

  // Returns the number of bytes that the file had when it was opened.
  size_t size() const { return static_cast<size_t>(opened_.st_size); }
  const std::string& path() const { return path_; }
  // Reads as many bytes as `into` has, from byte `begin` on. Throws a FileError if the file has
  // been written to since it was opened, even if these bytes are the same. A file that has another
  // name by now, or none, is still the same file. REQUIRES: begin + into.size() <= size().
  void read(size_t begin, std::span<std::byte> into) const;
  // Returns the bytes from `begin` on, `count` of them or as many as there are. Throws as read().
  std::string text(size_t begin, size_t count) const;

 private:
  std::string path_, name_;  // name_ is the path with the flag, for messages
  Descriptor file_;
  struct stat opened_;
};

// Returns all bytes of a file. Throws as InputFile does.
std::string read_file(const std::string& path);

// PartialFile is a new file at `path`. It is written under the name `path`.partial-XXXXXXXXXXXX,
// which no other process uses, and gets its own name when publish() or commit() is called. If
// anything fails before that, a file that was at `path` stays as it was. If `path` is a link, the
// file that it leads to is replaced, not the link. The file is locked (flock) while this object
// lives.
class PartialFile {
 public:
  // Creates the partial file, and removes those that killed runs have left (remove_abandoned() in
  // partial_name.h). Throws a UserError that names the path if the file cannot be created, if
  // `path` is a folder, a device, a pipe, or the file to which this program's standard output goes,
  // or if another run is writing the file.
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
  // Brings the bytes to the disk (fsync), gives the file its name, and brings that to the disk,
  // unless its folder has no name yet (is_in_partial_folder()). More may be written afterwards.
  // Throws an Error if any step fails. REQUIRES: neither published nor committed.
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
