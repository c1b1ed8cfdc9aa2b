#include "kernels/emulator/profiler/footprint.h"

#include <algorithm>
#include <bit>

namespace ladder::emulator {

namespace {
constexpr std::size_t kLine = 64;  // the bits of a word
}

void Footprint::insert(std::uintptr_t begin, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t offset = begin % kLine, here = std::min(bytes, kLine - offset);
    const std::uint64_t mask = here == kLine ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    lines_[begin / kLine] |= mask << offset;
    begin += here;
    bytes -= here;
  }
}

std::size_t Footprint::take() {
  std::size_t total = 0;
  for (const auto& [line, bytes] : lines_) total += static_cast<std::size_t>(std::popcount(bytes));
  lines_.clear();
  return total;
}

}  // namespace ladder::emulator
