// Packs: neighbouring elements that a thread loads or stores at once, 16 bytes where it can.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/warp.h"

namespace ladder::cuda {

template <class T, unsigned kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T of[kCount];
};

inline constexpr unsigned kPackBytes = 16;  // the most that one instruction loads or stores

// REQUIRES: `from` and `to` are aligned to the pack.
template <unsigned kCount, class T>
__device__ Pack<T, kCount> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <class T, unsigned kCount>
__device__ void store_pack(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// Do rows of n elements, the first at each of the pointers, all begin at multiples of kPackBytes?
template <class T>
bool in_packs(size_t n, std::initializer_list<const T*> pointers) {
  bool aligned = n * sizeof(T) % kPackBytes == 0;
  for (const T* pointer : pointers) {
    aligned = aligned && reinterpret_cast<uintptr_t>(pointer) % kPackBytes == 0;
  }
  return aligned;
}

// Calls function(constant) with how many elements of such rows to take at once: 16 bytes, or one.
template <class T, class Function>
void dispatch_pack(size_t n, std::initializer_list<const T*> pointers, Function&& function) {
  if (in_packs(n, pointers)) {
    function(std::integral_constant<unsigned, kPackBytes / sizeof(T)>{});
  } else {
    function(std::integral_constant<unsigned, 1>{});
  }
}

}  // namespace ladder::cuda
