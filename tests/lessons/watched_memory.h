// Memory that says where allocations of a size lie, so that a test can look into a trainer.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/runtime/memory_source.h"
#include "tests/catch.h"

namespace ladder::testing {

class WatchedMemory : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    void* const pointer = memory_of(DeviceType::cpu).allocate(bytes);
    blocks_.emplace_back(static_cast<uint16_t*>(pointer), bytes);
    return pointer;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    memory_of(DeviceType::cpu).release(pointer, bytes);
  }
  // The first block of this size.
  uint16_t* find(size_t bytes) const {
    for (const auto& [pointer, size] : blocks_) {
      if (size == bytes) return pointer;
    }
    FAIL("nothing has " << bytes << " bytes");
    return nullptr;
  }
  // FNV-1a over all blocks of this size.
  uint64_t hash(size_t bytes) const {
    uint64_t result = 0xCBF29CE484222325;
    for (const auto& [pointer, size] : blocks_) {
      for (size_t i = 0; size == bytes && i < bytes / 2; ++i) {
        result = (result ^ pointer[i]) * 0x100000001B3;
      }
    }
    return result;
  }

 private:
  std::vector<std::pair<uint16_t*, size_t>> blocks_;
};

}  // namespace ladder::testing
