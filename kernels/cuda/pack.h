// Packs: neighbouring elements that a thread loads or stores at once, up to 16 bytes. Between a
// load and a store, elements of bf16 and fp16 are fp32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/warp.h"

namespace ladder::cuda {

// N neighbouring elements. If they are at most 16 bytes, one instruction reads or writes them.
template <class T, unsigned N>
struct alignas(sizeof(T) * N) Pack {
  T element[N];
};

// Converts the elements to another type, and rounds them if it has fewer bits.
template <class To, class From, unsigned N>
__device__ Pack<To, N> convert(const Pack<From, N>& pack) {
  if constexpr (std::is_same_v<To, From>) {
    return pack;
  } else {
    Pack<To, N> converted;
    for (unsigned k = 0; k < N; ++k) converted.element[k] = static_cast<To>(pack.element[k]);
    return converted;
  }
}

// Copies a pack between memory and registers. On a GPU that is one instruction for a pack of 8 or
// 16 bytes, but only because it is copied as uint2 or uint4: nvcc copies the pack itself element by
// element where the elements are of bf16 or fp16.
template <class T, unsigned N>
__device__ void copy_pack(Pack<T, N>* to, const Pack<T, N>* from) {
  constexpr size_t kBytes = sizeof(Pack<T, N>);
  static_assert(kBytes <= 16);
  if constexpr (N > 1 && kBytes >= 8) {
#ifdef __CUDACC__
    using Words = std::conditional_t<kBytes == 16, uint4, uint2>;
    *reinterpret_cast<Words*>(to) = *reinterpret_cast<const Words*>(from);
#else
    emulator::copy_words<kBytes>(to, from);
#endif
  } else {
    *to = *from;
  }
}

// load_as_is() reads N elements; load() also converts them to the accumulation dtype; store()
// converts them back and writes them. REQUIRES: the address is a multiple of the size of N
// elements.
template <unsigned N, class T>
__device__ Pack<T, N> load_as_is(const T* from) {
  Pack<T, N> pack;
  copy_pack(&pack, reinterpret_cast<const Pack<T, N>*>(from));
  return pack;
}
template <unsigned N, class T>
__device__ Pack<Accumulate<T>, N> load(const T* from) {
  return convert<Accumulate<T>>(load_as_is<N>(from));
}
template <unsigned N, class T, class From>
__device__ void store(T* to, const Pack<From, N>& pack) {
  const Pack<T, N> converted = convert<T>(pack);
  copy_pack(reinterpret_cast<Pack<T, N>*>(to), &converted);
}

// The number of elements in the largest pack that has at most 16 bytes of T and of each of the
// Others.
template <class T, class... Others>
inline constexpr unsigned kPack = 16 / std::max({sizeof(T), sizeof(Others)...});

// Returns whether packs of N elements may be loaded from all these addresses.
template <unsigned N, class... T>
bool packs_are_aligned(const T*... at) {
  return ((reinterpret_cast<uintptr_t>(at) % (sizeof(T) * N) == 0) && ...);
}

// Returns whether rows of n elements at all these addresses consist of whole packs of the largest
// size.
template <class... T>
bool in_packs(size_t n, const T*... at) {
  return n % kPack<T...> == 0 && packs_are_aligned<kPack<T...>>(at...);
}

// Calls function(constant) with the number of elements to take at once: those of a pack, or one.
template <class T, unsigned N = kPack<T>, class Function>
void dispatch_pack(bool in_packs, Function&& function) {
  if (in_packs) {
    function(std::integral_constant<unsigned, N>());
  } else {
    function(std::integral_constant<unsigned, 1>());
  }
}

}  // namespace ladder::cuda
