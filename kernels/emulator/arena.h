// The emulator's device memory. Host code cannot touch it, and gaps in it show stray writes.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>

namespace ladder::emulator {

// While a DeviceAccess exists, the whole process can read and write device memory; otherwise the
// operating system forbids it. Kernels, copies, cuBLAS and NCCL hold one; host code must not.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// Fills memory with the pattern that it has before it is written. As a float or double it is NaN.
void fill_undefined(void* begin, size_t bytes);

// The arena is one reserved range of addresses, as large as the machine's memory. Allocations are
// aligned to 256 bytes, hold undefined values at first, and are followed by a gap of at least 256
// bytes that nothing may write. It is thread-safe.
class Arena {
 public:
  static Arena& instance();

  // Returns nullptr if there is no room left. REQUIRES: bytes > 0.
  void* allocate(size_t bytes);
  // Returns memory of any size, even more than the machine has. It is zero, takes no room until it
  // is written, and is not counted. It is for tests with tensors of more than 2^32 elements: 16 GiB
  // on either side cannot be accessed, so an index that was cut to 32 bits faults.
  void* reserve(size_t bytes);
  // Returns false if neither of the two returned `pointer`, or if it was released before.
  bool release(void* pointer);

  // Returns whether the address belongs to the device, allocated or not.
  bool contains(const void* pointer) const;
  // Returns whether the bytes lie in one allocation. If bytes == 0, its end counts too.
  bool holds(const void* pointer, size_t bytes) const;
  // Returns all addresses of the device but reserved ones.
  std::span<const char> addresses() const;
  // Returns the last allocation that begins at the address or before it; empty if there is none.
  std::span<const char> allocation_before(const char* address) const;
  // Says in words what was written after the end of an allocation; empty if nothing was. The gap is
  // restored, so that each write is reported once.
  std::string find_stray_write();

  size_t total() const { return total_; }
  size_t in_use() const;

 private:
  friend class DeviceAccess;
  Arena();
  void open();
  void close();
  void protect(int protection);
  bool is_reserved(const void* pointer, size_t bytes) const;
  void extend(size_t end);

  char* begin_;   // the beginning of the reserved range
  size_t total_;  // the bytes that can be allocated
  size_t end_;    // bytes from offset kFirst to this offset have been used
  int open_ = 0;  // how many DeviceAccess objects exist
  size_t in_use_ = 0;
  std::map<size_t, size_t> allocations_;    // offset -> bytes
  std::map<const void*, size_t> reserved_;  // begin -> bytes
  mutable std::recursive_mutex mutex_;
};

}  // namespace ladder::emulator
