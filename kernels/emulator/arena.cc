#include "kernels/emulator/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>

#include "kernels/emulator/fault.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/observers.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kReservedGap = size_t{16} << 30;  // on either side of reserved memory
constexpr size_t kGap = 256;                       // at least, behind every allocation
constexpr size_t kHugePage = size_t{2} << 20;      // the range is opened in steps of this
constexpr size_t kFirst = kHugePage;              // what lies before the first allocation is closed
constexpr std::uint32_t kUndefined = 0xfff5fff5;  // NaN as float, twice as double, and as 16 bits

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

// Returns the bytes from the beginning of an allocation to the earliest beginning of the next one.
size_t footprint(size_t bytes) { return round_up(bytes, kAlignment) + kGap; }

unsigned char undefined_byte(const void* at) {
  static constexpr auto kBytes = std::bit_cast<std::array<unsigned char, 4>>(kUndefined);
  return kBytes[reinterpret_cast<std::uintptr_t>(at) % kBytes.size()];
}

// Returns how many bytes from `begin` on are still as fill_undefined() left them. REQUIRES: `bytes`
// is at most the size of a gap.
size_t num_undefined(const char* begin, size_t bytes) {
  static const auto* const kExpected = [] {
    auto* const expected = new (std::align_val_t{kAlignment}) char[kGap + 2 * kAlignment];
    fill_undefined(expected, kGap + 2 * kAlignment);
    return expected;
  }();
  const char* const expected = kExpected + reinterpret_cast<std::uintptr_t>(begin) % kAlignment;
  if (std::memcmp(begin, expected, bytes) == 0) return bytes;
  return static_cast<size_t>(std::mismatch(begin, begin + bytes, expected).first - begin);
}

}  // namespace

void fill_undefined(void* begin, size_t bytes) {
  char* at = static_cast<char*>(begin);
  char* const end = at + bytes;
  while (at != end && reinterpret_cast<std::uintptr_t>(at) % sizeof kUndefined != 0) {
    *at = static_cast<char>(undefined_byte(at));
    ++at;
  }
  for (; end - at >= static_cast<std::ptrdiff_t>(sizeof kUndefined); at += sizeof kUndefined) {
    std::memcpy(at, &kUndefined, sizeof kUndefined);
  }
  for (; at != end; ++at) *at = static_cast<char>(undefined_byte(at));
}

Arena& Arena::instance() {
  static Arena* const arena = new Arena;  // never destroyed: streams may outlive static objects
  return *arena;
}

Arena::Arena() : end_(kFirst) {
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  total_ = round_up(pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)), kHugePage);
  // One huge page before the arena stays closed, and one after it.
  const size_t reserved = total_ + 3 * kHugePage;
  void* const mapped =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    fail(concat("cannot reserve ", reserved, " bytes of addresses for device memory"));
  }
  begin_ = reinterpret_cast<char*>(round_up(reinterpret_cast<std::uintptr_t>(mapped), kHugePage));
  // Opening and closing takes time for each page, so pages are large.
  madvise(begin_, total_ + kFirst, MADV_HUGEPAGE);
  set_fence(Fence::device_memory, mapped, reserved);
}

void* Arena::allocate(size_t bytes) {
  explain_faults();
  const std::lock_guard lock(mutex_);
  if (bytes > total_ || in_use_ + bytes > total_) return nullptr;
  size_t offset = kFirst;  // first fit
  for (const auto& [begin, size] : allocations_) {
    if (begin - offset >= footprint(bytes)) break;
    offset = begin + footprint(size);
  }
  if (offset + footprint(bytes) > kFirst + total_) return nullptr;
  extend(offset + footprint(bytes));
  allocations_.emplace(offset, bytes);
  in_use_ += bytes;
  const DeviceAccess access;
  // Without the filling, memory that is not written takes no room.
  const size_t filled = launches_are_sampled() ? bytes : 0;
  fill_undefined(begin_ + offset + filled, footprint(bytes) - filled);
  tell_observers([&](Observer& observer) { observer.allocated(begin_ + offset, bytes); });
  return begin_ + offset;
}

void* Arena::reserve(size_t bytes) {
  const std::lock_guard lock(mutex_);
  void* const mapped = mmap(nullptr, bytes + 2 * kReservedGap, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail(concat("cannot reserve ", bytes, " bytes of addresses"));
  void* const begin = static_cast<char*>(mapped) + kReservedGap;
  madvise(begin, bytes, MADV_NOHUGEPAGE);
  reserved_.emplace(begin, bytes);
  if (open_ > 0) protect(PROT_READ | PROT_WRITE);
  return begin;
}

bool Arena::release(void* pointer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = reserved_.find(pointer); found != reserved_.end()) {
    munmap(static_cast<char*>(pointer) - kReservedGap, found->second + 2 * kReservedGap);
    reserved_.erase(found);
    return true;
  }
  if (!contains(pointer)) return false;
  const auto found = allocations_.find(static_cast<size_t>(static_cast<char*>(pointer) - begin_));
  if (found == allocations_.end()) return false;
  const DeviceAccess access;
  fill_undefined(pointer, found->second);  // so that use after release shows
  tell_observers([&](Observer& observer) { observer.released(pointer, found->second); });
  in_use_ -= found->second;
  allocations_.erase(found);
  return true;
}

bool Arena::is_reserved(const void* pointer, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto next = reserved_.upper_bound(pointer);
  if (next == reserved_.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  const auto inside =
      static_cast<size_t>(static_cast<const char*>(pointer) - static_cast<const char*>(begin));
  return inside <= size && bytes <= size - inside;
}

bool Arena::contains(const void* pointer) const {
  if (is_reserved(pointer, 0)) return true;
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto begin = reinterpret_cast<std::uintptr_t>(begin_);
  return at >= begin && at < begin + kFirst + total_;
}

bool Arena::holds(const void* pointer, size_t bytes) const {
  if (is_reserved(pointer, bytes)) return true;
  if (!contains(pointer)) return false;
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - begin_);
  auto found = allocations_.upper_bound(offset);
  if (found == allocations_.begin()) return false;
  --found;
  const size_t inside = offset - found->first;
  return inside <= found->second && bytes <= found->second - inside;
}

std::span<const char> Arena::addresses() const { return {begin_, kFirst + total_}; }

std::span<const char> Arena::allocation_before(const char* address) const {
  const std::lock_guard lock(mutex_);
  auto found = allocations_.upper_bound(static_cast<size_t>(address - begin_));
  if (found == allocations_.begin()) return {};
  --found;
  return {begin_ + found->first, found->second};
}

std::string Arena::find_stray_write() {
  const std::lock_guard lock(mutex_);
  const DeviceAccess access;
  for (const auto& [offset, bytes] : allocations_) {
    char* const end = begin_ + offset + bytes;
    const size_t gap = footprint(bytes) - bytes, clean = num_undefined(end, gap);
    if (clean == gap) continue;
    fill_undefined(end, gap);
    return concat("memory ", clean, " bytes behind the end of the ", bytes, " bytes at ",
                  static_cast<const void*>(end - bytes), " was written");
  }
  return "";
}

size_t Arena::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

void Arena::protect(int protection) {
  const auto protect_range = [protection](const void* begin, size_t bytes) {
    if (bytes == 0 || mprotect(const_cast<void*>(begin), bytes, protection) == 0) return;
    fail(concat("mprotect of device memory failed: ", std::strerror(errno)));
  };
  protect_range(begin_ + kFirst, round_up(end_ - kFirst, kHugePage));
  for (const auto& [begin, bytes] : reserved_) protect_range(begin, bytes);
}

void Arena::extend(size_t end) {
  if (end <= end_) return;
  end_ = end;
  if (open_ > 0) protect(PROT_READ | PROT_WRITE);
}

void Arena::open() {
  const std::lock_guard lock(mutex_);
  if (open_++ == 0) protect(PROT_READ | PROT_WRITE);
}

void Arena::close() {
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) protect(PROT_NONE);
}

DeviceAccess::DeviceAccess() { Arena::instance().open(); }
DeviceAccess::~DeviceAccess() { Arena::instance().close(); }

}  // namespace ladder::emulator
