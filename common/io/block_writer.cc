#include "common/io/block_writer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/runtime/check.h"

namespace ladder {

void BlockWriter::Free::operator()(std::byte* block) const { std::free(block); }

BlockWriter::BlockWriter(PartialFile& file) : file_(file) {
  // Disks want memory that is aligned to their sectors, of 512 bytes or 4 KB.
  constexpr size_t kAlignment = 4096;
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBlockBytes)));
  if (block_ == nullptr) throw std::bad_alloc();
}

void BlockWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kBlockBytes - used_);
    std::memcpy(block_.get() + used_, bytes.data(), count);
    used_ += count;
    bytes = bytes.subspan(count);
    if (used_ < kBlockBytes) return;
    file_.bypass_cache(true);
    file_.write({block_.get(), kBlockBytes});
    used_ = 0;
  }
}

void BlockWriter::finish() {
  file_.bypass_cache(false);
  file_.write({block_.get(), used_});
}

}  // namespace ladder
