#include "kernels/runtime/memory.h"

#include <cstdio>
#include <numeric>
#include <utility>

namespace ladder {
std::string_view name_of(Category category) {
  switch (category) {
    case Category::parameters:
      return "parameters";
    case Category::gradients:
      return "gradients";
    case Category::optimizer:
      return "optimizer";
    case Category::activations:
      return "activations";
    case Category::communication:
      return "communication";
    case Category::workspace:
      return "workspace";
  }
  return "?";
}

size_t MemoryUse::total() const { return std::accumulate(bytes.begin(), bytes.end(), size_t{0}); }

OutOfMemory::OutOfMemory(const std::string& message, const Memory& memory, Category category_,
                         size_t bytes_)
    : Error(message),
      arena(memory.arena()),
      in_use(memory.current()),
      category(category_),
      bytes(bytes_),
      limit(memory.limit()) {}

Memory::Memory(DeviceType device, std::string arena, size_t limit)
    : Memory(device, std::move(arena), limit, memory_of(device)) {}

Memory::Memory(DeviceType device, std::string arena, size_t limit, MemorySource& source)
    : device_(device), arena_(std::move(arena)), limit_(limit), source_(source) {}

Memory::~Memory() = default;

void* Memory::allocate(Category category, size_t bytes, MemorySource* source) {
  check(bytes > 0, "Memory::allocate: zero bytes");
  const size_t used = current_.total();
  if (limit_ > 0 && (used > limit_ || bytes > limit_ - used)) {
    throw OutOfMemory(
        concat("out of ", arena_, " memory: ", human_bytes(bytes), " of ", name_of(category),
               " do not fit, ", human_bytes(used), " of ", human_bytes(limit_), " are in use"),
        *this, category, bytes);
  }
  void* const pointer = (source != nullptr ? *source : source_).allocate(bytes);
  if (pointer == nullptr) {
    throw OutOfMemory(concat("out of ", arena_, " memory: the machine has no ", human_bytes(bytes),
                             " left for ", name_of(category)),
                      *this, category, bytes);
  }
  current_[category] += bytes;
  if (current_[category] > peak_[category]) peak_[category] = current_[category];
  return pointer;
}

void Memory::release(void* pointer, Category category, size_t bytes,
                     MemorySource* source) noexcept {
  (source != nullptr ? *source : source_).release(pointer, bytes);
  current_[category] -= bytes;
}

std::string human_bytes(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  const bool whole = value == static_cast<double>(static_cast<size_t>(value));
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace ladder
