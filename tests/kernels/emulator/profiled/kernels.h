// Kernels whose accesses can be counted by hand. Each runs on one or more thread blocks of 128
// threads (4 warps), unless it says otherwise.
#pragma once

#include <cstddef>

namespace ladder::profiled {

constexpr std::size_t kThreads = 128;

// Thread i of all threads copies in[apart * i] to out[i].
void copy(float* out, const float* in, std::size_t apart, unsigned blocks);
// Thread i copies the four floats from in + 4 i on at once.
void copy_packs(float* out, const float* in);
// The first `lanes` threads of each warp copy in[i] to out[i].
void copy_in_some_lanes(float* out, const float* in, unsigned lanes);
// Each thread stores a word of shared memory at `apart` times its lane, and no other access.
void store_shared(unsigned apart);
// The same with four words at once, at 4 * apart times the lane.
void store_shared_packs(unsigned apart);
// Each thread computes three multiply-adds.
void compute(float* out);
// Each warp of one multiplies two matrices once.
void multiply();

}  // namespace ladder::profiled
