// Atomic operations. They set *address = f(*address, value) and return the value from before. The
// emulator's threads take turns and change only when they wait, so these are plain operations.
#pragma once

#include <concepts>
#include <type_traits>

namespace ladder::emulator {

template <class T, class... Allowed>
concept OneOf = (std::same_as<T, Allowed> || ...);

template <class T>
T exchange(T* address, T value) {
  const T before = *address;
  *address = value;
  return before;
}

}  // namespace ladder::emulator

template <ladder::emulator::OneOf<int, unsigned, unsigned long long, float, double> T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return ladder::emulator::exchange(address, static_cast<T>(*address + value));
}

template <ladder::emulator::OneOf<int, unsigned, long long, unsigned long long> T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return ladder::emulator::exchange(address, *address < value ? value : *address);
}

// Sets *address to `value` if it is `expected`.
template <ladder::emulator::OneOf<int, unsigned, unsigned long long, unsigned short> T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return ladder::emulator::exchange(address, *address == expected ? value : *address);
}
