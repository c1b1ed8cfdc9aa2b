// Finds host code that touches pinned memory while a copy may still be using it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "kernels/emulator/work_order.h"

namespace ladder::emulator {

// From the call of a copy until the host has waited for it, the operating system forbids what would
// be a mistake, even if the emulator has run the copy already: to write what the copy reads, and to
// read or write what it writes. Who does so ends the process, with a line on standard error that
// says why. There is one object. It is thread-safe.
class PinnedGuard {
 public:
  PinnedGuard();

  // A stream was given a copy that reads these bytes of pinned memory, or writes them.
  void add(const void* begin, size_t bytes, bool writes, WorkId work);
  // Forgets the copies that the host has waited for.
  void forget_waited();
  // The memory is about to be freed.
  void forget(const void* begin, size_t bytes);
  // Between the two, copies run.
  void open();
  void close();

 private:
  struct Copy {
    std::uintptr_t begin = 0, end = 0;  // of no bytes: this entry is free
    bool writes = false;
    WorkId work = 0;
  };

  // Called when a page was hit that is protected. Returns whether the access may go on.
  static bool allow(std::uintptr_t address, bool writes);
  bool allow_here(std::uintptr_t address, bool writes);
  void protect(const Copy& copy, int protection);
  // Gives the pages of `gone` the protection that the other copies ask for.
  void restore(const Copy& gone);
  template <class Ended>
  void forget_if(Ended ended);

  // Of the copies beyond these nothing is noticed. An array, because a handler of signals reads it.
  std::array<Copy, 256> copies_;
  size_t num_open_ = 0;
  std::mutex mutex_;
};

}  // namespace ladder::emulator
