#include "common/io/direct_writer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/runtime/check.h"

namespace ladder {

void DirectWriter::Free::operator()(std::byte* buffer) const { std::free(buffer); }

DirectWriter::DirectWriter(PartialFile& file) : file_(file) {
  // Disks want memory that is aligned to their sectors, of 512 bytes or 4 KB.
  constexpr size_t kAlignment = 4096;
  buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBufferBytes)));
  if (buffer_ == nullptr) throw std::bad_alloc();
}

void DirectWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kBufferBytes - used_);
    std::memcpy(buffer_.get() + used_, bytes.data(), count);
    used_ += count;
    bytes = bytes.subspan(count);
    if (used_ < kBufferBytes) return;
    file_.bypass_cache(true);
    file_.write({buffer_.get(), kBufferBytes});
    used_ = 0;
  }
}

void DirectWriter::finish() {
  file_.bypass_cache(false);
  file_.write({buffer_.get(), used_});
}

}  // namespace ladder
