#include "kernels/emulator/checker/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

template <class T>
T* reserve(size_t count) {
  void* const mapped = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail("cannot reserve addresses for the checker's tables");
  return static_cast<T*>(mapped);
}

}  // namespace

Shadow::Shadow(std::uintptr_t begin, size_t bytes) : begin_(begin), bytes_(bytes) {
  const size_t words = (bytes + kWord - 1) / kWord;
  states_ = reserve<std::uint8_t>(words);
  cells_ = reserve<Cell>(words);
  byte_cells_ = reserve<Cell>(words * kWord);
}

void Shadow::set(std::uintptr_t begin, size_t bytes, ByteState state) {
  const auto value = static_cast<unsigned>(state);
  const std::uintptr_t end = begin + bytes;
  const auto set_in_word = [&](std::uintptr_t from, std::uintptr_t to) {
    const unsigned mask = (1u << (to - from)) - 1, bits = mask << from % kWord;
    const unsigned both = bits | bits << 4;
    states(from) = static_cast<std::uint8_t>((states(from) & ~both) | (value & both));
  };
  const std::uintptr_t first = (begin + kWord - 1) / kWord * kWord, last = end / kWord * kWord;
  if (begin < first) set_in_word(begin, std::min(first, end));
  if (first < last) std::memset(&states(first), static_cast<int>(value), (last - first) / kWord);
  if (last < end && last >= first) set_in_word(last, end);
}

void Shadow::copy(std::uintptr_t to, std::uintptr_t from, size_t bytes) {
  if (to % kWord == 0 && from % kWord == 0 && bytes % kWord == 0) {
    std::memmove(&states(to), &states(from), bytes / kWord);
    return;
  }
  for (size_t i = 0; i < bytes; ++i) {
    const bool written = has(from + i, 4 + (from + i) % kWord);
    set(to + i, 1, written ? ByteState::written : ByteState::undefined);
  }
}

void Shadow::forget_accesses() {
  const size_t words = (bytes_ + kWord - 1) / kWord;
  madvise(cells_, words * sizeof(Cell), MADV_DONTNEED);
  madvise(byte_cells_, words * kWord * sizeof(Cell), MADV_DONTNEED);
}

}  // namespace ladder::emulator
