// Atomic operations. They set *address = f(*address, value) and return the value from before. The
// emulator's threads take turns and change only when they wait, so these are plain operations.
// Observers are told that they are atomic, and the compiler must not tell them of plain ones.
#pragma once

#include <concepts>
#include <type_traits>

#include "kernels/emulator/access.h"

#define LADDER_ATOMIC [[gnu::no_sanitize("thread")]]

namespace ladder::emulator {

template <class T, class... Allowed>
concept OneOf = (std::same_as<T, Allowed> || ...);

template <class T>
LADDER_ATOMIC T exchange(T* address, T value) {
  const T before = *address;
  *address = value;
  return before;
}

[[gnu::always_inline]] inline void tell_atomic(const void* address, size_t bytes) {
  if (!is_observed) return;
  report_access(address, bytes, AccessKind::atomic, __builtin_return_address(0));
}

}  // namespace ladder::emulator

template <ladder::emulator::OneOf<int, unsigned, unsigned long long, float, double> T>
LADDER_ATOMIC T atomicAdd(T* address, std::type_identity_t<T> value) {
  ladder::emulator::tell_atomic(address, sizeof *address);
  return ladder::emulator::exchange(address, static_cast<T>(*address + value));
}

template <ladder::emulator::OneOf<int, unsigned, long long, unsigned long long> T>
LADDER_ATOMIC T atomicMax(T* address, std::type_identity_t<T> value) {
  ladder::emulator::tell_atomic(address, sizeof *address);
  return ladder::emulator::exchange(address, *address < value ? value : *address);
}

// Sets *address to `value` if it is `expected`.
template <ladder::emulator::OneOf<int, unsigned, unsigned long long, unsigned short> T>
LADDER_ATOMIC T atomicCAS(T* address, std::type_identity_t<T> expected,
                          std::type_identity_t<T> value) {
  ladder::emulator::tell_atomic(address, sizeof *address);
  return ladder::emulator::exchange(address, *address == expected ? value : *address);
}

#undef LADDER_ATOMIC
