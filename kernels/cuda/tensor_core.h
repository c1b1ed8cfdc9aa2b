// What a GPU has for matrix products in 16 bits, from Ampere on: the products themselves, loads of
// their operands, and copies to shared memory that go on while a thread computes. Each function is
// one instruction of the PTX ISA, which documents it; the emulator has its own versions.
//
// The threads of a warp share a small matrix: each has a few elements of it, its fragment. Here g
// is the lane's number / 4, and t is its number % 4. README.md draws the accumulators.
//   accumulators (16, 8), float[4]: rows g and g + 8, in each the columns 2t and 2t + 1
//
//   a (16, 16), Fragment: register 0 has row g, columns 2t and 2t + 1 (the first one is in the
//   lower half); register 1 the same of row g + 8; registers 2 and 3 those of columns 8 + 2t and
//   9 + 2t
//
//   b (16, 8), two registers: column g, rows 2t and 2t + 1; then rows 8 + 2t and 9 + 2t
//
// REQUIRES: all 32 lanes of a warp call mma and the loads together, in one line of the source.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/runtime/low_precision.h"

#ifndef __CUDACC__
#include "kernels/emulator/tensor_core.h"
#endif

namespace ladder::cuda {

using Fragment = uint32_t[4];  // pairs of bf16 or fp16

// mma.m16n8k16: sums += a b. Products are exact, sums are fp32; in which order they are added, and
// how they are rounded in between, is not documented.
//   template <class T> void mma(float (&sums)[4], const Fragment& a, uint32_t b0, uint32_t b1);
//
// ldmatrix.x4: loads four matrices of 8 x 8 elements from shared memory. Lane 8 i + r passes the
// address of row r of matrix i. Register i receives row g, columns 2t and 2t + 1, of matrix i.
// With .trans it is those of the transposed matrix: column g, rows 2t and 2t + 1. REQUIRES: each
// address is a multiple of 16.
//   void load_matrices(Fragment& fragment, const void* row);
//   void load_transposed(Fragment& fragment, const void* row);
//
// cp.async: begins to copy an element of T, 4 or 16 bytes, from global to shared memory; if
// !exists, zeros, and `from` is not read. The copies since the last commit_copies() become a group.
// wait_for_copies<n>() returns when all of this thread's groups but the last n have ended; other
// threads see the copies after the next barrier. REQUIRES: addresses are multiples of sizeof(T).
//   template <class T> void begin_copy(T* to, const T* from, bool exists);
//   void commit_copies();
//   template <unsigned kInFlight> void wait_for_copies();

#ifdef __CUDACC__

template <class T>
__device__ void mma(float (&sums)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, float16>);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// The compiler must not move these over other accesses to memory, hence "memory".
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void load_matrices(Fragment& fragment, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_transposed(Fragment& fragment, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared_address(row))
               : "memory");
}

template <class T>
__device__ void begin_copy(T* to, const T* from, bool exists) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
  const uint32_t bytes = exists ? sizeof(T) : 0;  // the rest is filled with zeros
  if constexpr (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  }
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned kInFlight>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kInFlight) : "memory");
}

#else

using emulator::commit_copies, emulator::load_matrices, emulator::load_transposed, emulator::mma;

template <class T>
void begin_copy(T* to, const T* from, bool exists) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
  emulator::begin_copy(to, exists ? from : nullptr, sizeof(T));
}
template <unsigned kInFlight>
void wait_for_copies() {
  emulator::wait_for_copies(kInFlight);
}

#endif

// Returns two elements of T in one register, the first one in the lower half.
template <class T>
__device__ uint32_t pair_of(float first, float second) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  if constexpr (std::is_same_v<T, bfloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  return uint32_t{T(first).bits()} | uint32_t{T(second).bits()} << 16;
#endif
}

}  // namespace ladder::cuda
