// Packs: neighbouring elements that a thread loads or stores at once, 16 bytes where it can.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/warp.h"

namespace ladder::cuda {

// N neighbouring elements, loaded or stored by one instruction where they are up to 16 bytes.
template <class T, unsigned N>
struct alignas(sizeof(T) * N) Pack {
  T element[N];
};

// REQUIRES: the address is a multiple of the pack's size.
template <unsigned N, class T>
__device__ Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <unsigned N, class T>
__device__ void store(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Elements in the largest pack that neither T's nor Others' makes larger than 16 bytes.
template <class T, class... Others>
inline constexpr unsigned kPack = 16 / std::max({sizeof(T), sizeof(Others)...});

// May packs of N be loaded from all these addresses?
template <unsigned N, class... T>
bool packs_are_aligned(const T*... at) {
  return ((reinterpret_cast<uintptr_t>(at) % (sizeof(T) * N) == 0) && ...);
}

// Do rows of n elements, at all these addresses, consist of the largest packs?
template <class... T>
bool in_packs(size_t n, const T*... at) {
  return n % kPack<T...> == 0 && packs_are_aligned<kPack<T...>>(at...);
}

// Calls function(constant) with the number of elements to take at once: a pack's, or one.
template <class T, class Function>
void dispatch_pack(bool in_packs, Function&& function) {
  if (in_packs) {
    function(std::integral_constant<unsigned, kPack<T>>());
  } else {
    function(std::integral_constant<unsigned, 1>());
  }
}

}  // namespace ladder::cuda
