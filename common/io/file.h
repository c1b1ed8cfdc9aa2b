// Files as the operating system sees them: a read-only map, and a file that appears only when
// whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

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

// A new file at `path`, written as `path`.partial beside it and renamed by commit(). Whatever
// fails, a file that was at `path` before stays as it was. One writer per path at a time.
class PartialFile {
 public:
  // UserError, naming the path: the partial file cannot be created, or `path` is no regular file.
  explicit PartialFile(const std::string& path);
  // Without commit(), removes the partial file.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // Appends. Throws Error where not everything could be written, such as on a full disk.
  // REQUIRES: not committed.
  void write(std::span<const std::byte> bytes);
  // Brings the bytes to the disk, then gives the file its name. Throws Error if any step fails.
  // REQUIRES: not committed.
  void commit();

 private:
  std::string path_;
  std::string partial_path_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace ladder
