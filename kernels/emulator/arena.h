// Device memory of the emulator: fenced off from the host, with gaps that show stray writes.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace ladder::emulator {

// While one of these is alive, device memory can be read and written (by the whole process: fences
// are the operating system's). Kernels, copies, cuBLAS and NCCL hold one; host code must not.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// Fills with what memory holds before it is written: a pattern whose floats and doubles are NaN.
void fill_undefined(void* begin, size_t bytes);

// One reserved range of addresses, as large as the machine's memory. Allocations are aligned to 256
// bytes, hold undefined values at first, and are followed by a gap of at least 256 bytes that
// nobody may write. Thread-safe.
class Arena {
 public:
  static Arena& instance();

  // nullptr where no room is left. REQUIRES: bytes > 0.
  void* allocate(size_t bytes);
  // As much memory as you like, more than the machine has: zeros that take no room until they are
  // written. Not counted. For tests with tensors of more than 2^32 elements: 16 GiB on either side
  // are closed, as far as an index goes astray that was cut to 32 bits.
  void* reserve(size_t bytes);
  // False if neither of the two returned `pointer`, or it was released before.
  bool release(void* pointer);

  // Does the address belong to the device, allocated or not?
  bool contains(const void* pointer) const;
  // Do the bytes lie in one allocation? Its end is part of it when bytes == 0.
  bool holds(const void* pointer, size_t bytes) const;
  // What was written behind the end of an allocation, in words; "" if nothing was. The gap is
  // mended, so that it is reported once.
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

  char* begin_;   // of the reserved range
  size_t total_;  // bytes that can be allocated
  size_t end_;    // offset: bytes from kFirst to here have been used
  int open_ = 0;  // DeviceAccess alive
  size_t in_use_ = 0;
  std::map<size_t, size_t> allocations_;    // offset -> bytes
  std::map<const void*, size_t> reserved_;  // begin -> bytes
  mutable std::recursive_mutex mutex_;
};

}  // namespace ladder::emulator
