#include "kernels/emulator/checker/pinned_guard.h"

#include <sys/mman.h>

#include <algorithm>

#include "kernels/emulator/fault.h"

namespace ladder::emulator {
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr int kAll = PROT_READ | PROT_WRITE;

PinnedGuard* the_guard = nullptr;

}  // namespace

PinnedGuard::PinnedGuard() {
  the_guard = this;
  set_fault_filter(allow);
}

void PinnedGuard::protect(const Copy& copy, int protection) {
  const std::uintptr_t first = copy.begin / kPage * kPage;
  const std::uintptr_t end = (copy.end + kPage - 1) / kPage * kPage;
  mprotect(reinterpret_cast<void*>(first), end - first, protection);  // NOLINT: pages
}

void PinnedGuard::add(const void* begin, size_t bytes, bool writes, WorkId work) {
  const std::lock_guard lock(mutex_);
  const auto location = std::ranges::find(copies_, std::uintptr_t{0}, &Copy::begin);
  if (location == copies_.end()) return;
  explain_faults();
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  *location = {at, at + bytes, writes, work};
  restore(*location);
}

void PinnedGuard::restore(const Copy& gone) {
  protect(gone, kAll);
  if (num_open_ > 0) return;
  const auto shares_page = [&](const Copy& copy) {
    return copy.begin != 0 && copy.begin / kPage <= (gone.end - 1) / kPage &&
           gone.begin / kPage <= (copy.end - 1) / kPage;
  };
  // First the pages that may be read, so that those that may not come out right.
  for (const bool writes : {false, true}) {
    for (const Copy& copy : copies_) {
      if (shares_page(copy) && copy.writes == writes) protect(copy, writes ? PROT_NONE : PROT_READ);
    }
  }
}

template <class Ended>
void PinnedGuard::forget_if(Ended ended) {
  const std::lock_guard lock(mutex_);
  for (Copy& copy : copies_) {
    if (copy.begin == 0 || !ended(copy)) continue;
    const Copy gone = copy;
    copy = {};
    restore(gone);
  }
}

void PinnedGuard::forget_waited() {
  forget_if([](const Copy& copy) { return host_has_waited_for(copy.work); });
}

void PinnedGuard::forget(const void* begin, size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  forget_if([&](const Copy& copy) { return copy.begin >= first && copy.begin < first + bytes; });
}

void PinnedGuard::open() {
  const std::lock_guard lock(mutex_);
  if (num_open_++ > 0) return;
  for (const Copy& copy : copies_) {
    if (copy.begin != 0) protect(copy, kAll);
  }
}

void PinnedGuard::close() {
  const std::lock_guard lock(mutex_);
  if (--num_open_ > 0) return;
  for (const Copy& copy : copies_) {
    if (copy.begin != 0) restore(copy);
  }
}

bool PinnedGuard::allow(std::uintptr_t address, bool writes) {
  return the_guard->allow_here(address, writes);
}

bool PinnedGuard::allow_here(std::uintptr_t address, bool writes) {
  const Copy* on_page = nullptr;
  for (const Copy& copy : copies_) {
    if (copy.begin == 0 || copy.begin / kPage > address / kPage ||
        (copy.end - 1) / kPage < address / kPage) {
      continue;
    }
    on_page = &copy;
    const bool hit = address >= copy.begin && address < copy.end && (copy.writes || writes);
    if (!hit || running_work != 0) continue;
    explain_fault(address,
                  writes ? "writes pinned memory that a copy" : "reads pinned memory that a copy",
                  copy.writes ? " writes: wait for its stream or an event first"
                              : " reads: wait for its stream or an event first");
    return false;
  }
  if (on_page == nullptr) return false;
  // A neighbour on the same page, or a kernel. The page is open until the next copy.
  const std::uintptr_t page = address / kPage * kPage;
  mprotect(reinterpret_cast<void*>(page), kPage, kAll);  // NOLINT: a page
  return true;
}

}  // namespace ladder::emulator
