// Which bytes of memory a launch has touched.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace ladder::emulator {

// A set of bytes. It grows with the number of distinct lines of 64 bytes.
class Footprint {
 public:
  void insert(std::uintptr_t begin, std::size_t bytes);
  // Returns the number of bytes, and forgets them.
  std::size_t take();

 private:
  std::unordered_map<std::uintptr_t, std::uint64_t> lines_;  // number of the line -> its bytes
};

}  // namespace ladder::emulator
