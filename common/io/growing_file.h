// A file that grows by whole writes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/io/descriptor.h"

namespace ladder {

// A GrowingFile is appended to write by write. What is written is in the file whole or not at all,
// so a reader never finds one that is cut off. A default-constructed object has no file.
class GrowingFile {
 public:
  GrowingFile() = default;
  // Takes an empty file that was opened with O_APPEND. Messages name it as `path`.
  GrowingFile(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  // These throw an Error if they fail. Then nothing of it is in the file.
  void write(std::span<const std::byte> bytes);
  void sync() const;  // brings the bytes to the disk (fsync)
  void close();
  // Lets what is written from now on go to the disk without the system's cache (O_DIRECT), or
  // through it again. Nothing happens if the file system cannot do it. REQUIRES of what is written
  // without the cache: it begins and ends at multiples of the disk's sectors, in memory and in the
  // file.
  void bypass_cache(bool bypass) const;

  bool is_open() const { return file_.is_open(); }

 private:
  [[noreturn]] void fail_step(const char* step) const;

  Descriptor file_;
  std::string path_;
  size_t size_ = 0;
};

}  // namespace ladder
