// Writes large files without the system's cache.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/io/file.h"

namespace ladder {

// A DirectWriter collects what is written into a buffer, and writes a full buffer from memory
// straight to the disk (O_DIRECT). To write through the system's cache instead takes about as much
// of a core as the disk takes time: pages to find, a copy, and pages to give back. While training
// goes on, no core is free for that. What is left at the end is less than a buffer and goes through
// the cache; so does everything if the file system does not know O_DIRECT.
class DirectWriter {
 public:
  static constexpr size_t kBufferBytes = size_t{4} << 20;

  // REQUIRES: nothing has been written to `file`, and it outlives this object.
  explicit DirectWriter(PartialFile& file);

  // Appends bytes. Throws an Error if a buffer cannot be written, for example because the disk is
  // full.
  void write(std::span<const std::byte> bytes);
  // Writes what is left. Called once, before the file is committed. Throws an Error if it cannot.
  void finish();

 private:
  struct Free {
    void operator()(std::byte* buffer) const;
  };

  PartialFile& file_;
  std::unique_ptr<std::byte[], Free> buffer_;
  size_t used_ = 0;  // bytes of the buffer
};

}  // namespace ladder
