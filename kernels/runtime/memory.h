// Memory of one rank, counted by category and capped.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/memory_source.h"

namespace ladder {

// What an allocation is for. Every allocation has exactly one category.
enum class Category { parameters, gradients, optimizer, activations, communication, workspace };

inline constexpr std::array<Category, 6> kCategories = {
    Category::parameters,  Category::gradients,     Category::optimizer,
    Category::activations, Category::communication, Category::workspace};

std::string_view name_of(Category category);

// Bytes by category.
struct MemoryUse {
  std::array<size_t, kCategories.size()> bytes{};

  size_t& operator[](Category category) { return bytes[static_cast<size_t>(category)]; }
  size_t operator[](Category category) const { return bytes[static_cast<size_t>(category)]; }
  size_t total() const;
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

class Memory;

// An allocation went over the cap (or the machine had no more). what() is one line; the program
// adds the table of categories.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, const Memory& memory, Category category, size_t bytes);

  std::string arena;  // "device" or "host"
  MemoryUse in_use;   // at the time of the request
  Category category;  // of the request
  size_t bytes;       // requested
  size_t limit;       // the cap, in bytes; 0 = none
};

// An arena: the device memory or the host (offload) memory of one rank.
//
// Allocations are aligned to 64 bytes, zero-filled, and counted at exactly their own size. Not
// thread-safe: one thread allocates (trainers allocate once, in their constructor). Must outlive
// its allocations.
class Memory {
 public:
  // Memory of `device`: its own, or what `source` gives. `limit` in bytes caps the sum over all
  // categories; 0 = no cap.
  Memory(DeviceType device, std::string arena, size_t limit);
  Memory(DeviceType device, std::string arena, size_t limit, MemorySource& source);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // From `source`, or from the arena's own where it is null.
  // REQUIRES: bytes > 0. Throws OutOfMemory, after which nothing has changed.
  void* allocate(Category category, size_t bytes, MemorySource* source = nullptr);
  // REQUIRES: allocate(category, bytes, source) returned `pointer`.
  void release(void* pointer, Category category, size_t bytes,
               MemorySource* source = nullptr) noexcept;

  DeviceType device() const { return device_; }
  const std::string& arena() const { return arena_; }
  size_t limit() const { return limit_; }
  // Bytes allocated now, and the most there ever were: per category, each at its own time.
  const MemoryUse& current() const { return current_; }
  const MemoryUse& peak() const { return peak_; }

 private:
  DeviceType device_;
  std::string arena_;
  size_t limit_;
  MemorySource& source_;
  MemoryUse current_;
  MemoryUse peak_;
};

// "1.50 GiB", "512 MiB", "17 B".
std::string human_bytes(size_t bytes);

}  // namespace ladder
