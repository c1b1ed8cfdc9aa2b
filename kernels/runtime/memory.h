// The memory of one rank, which is counted by category and may be limited.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/memory_source.h"

namespace ladder {

// The use of an allocation. Every allocation has exactly one category.
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

// The error of an allocation that went over the limit, or for which the machine had no memory.
// what() is one line; the program adds a table of the categories.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, const Memory& memory, Category category, size_t bytes);

  std::string arena;  // "device" or "host"
  MemoryUse in_use;   // what was in use at that time
  Category category;  // the category of the request
  size_t bytes;       // the bytes of the request
  size_t limit;       // the limit in bytes; 0 = none
};

// Memory is an arena: the device memory or the host (offload) memory of one rank.
//
// Allocations are aligned to 64 bytes, filled with zeros, and counted with exactly their own size.
// It is not thread-safe: one thread allocates (trainers allocate once, in their constructor). It
// must outlive its allocations.
class Memory {
 public:
  // Makes an arena on `device`. Memory comes from `source`, or from the device's own source.
  // `limit` is the most bytes that all categories together may use; 0 = no limit.
  Memory(DeviceType device, std::string arena, size_t limit);
  Memory(DeviceType device, std::string arena, size_t limit, MemorySource& source);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Allocates from `source`, or from the arena's own source if it is null. Throws OutOfMemory,
  // which leaves everything as it was. REQUIRES: bytes > 0.
  void* allocate(Category category, size_t bytes, MemorySource* source = nullptr);
  // Frees memory. REQUIRES: allocate(category, bytes, source) returned `pointer`.
  void release(void* pointer, Category category, size_t bytes,
               MemorySource* source = nullptr) noexcept;

  DeviceType device() const { return device_; }
  const std::string& arena() const { return arena_; }
  size_t limit() const { return limit_; }
  // Return the bytes that are allocated now, and the largest number of bytes so far: for each
  // category, each at its own time.
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

// Writes bytes with a unit, as in "1.50 GiB", "512 MiB", "17 B".
std::string human_bytes(size_t bytes);

}  // namespace ladder
