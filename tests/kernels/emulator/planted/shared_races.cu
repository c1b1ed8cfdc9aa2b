// Threads of one block that access the same shared memory without an order between them.
#include "kernels/cuda/tensor_core.h"
#include "tests/kernels/emulator/planted/bugs.h"
#include "tests/kernels/emulator/planted/run.h"

namespace ladder::planted {
namespace {

constexpr unsigned kAll = 0xffffffff;

// From attention: the barrier between loading a tile and using it.
template <bool kWrong>
__global__ void load_then_use(float* out, const float* in) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];  // @load
  if (!kWrong) __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // @use
}

// From attention: the barrier between using a tile and loading the next one.
template <bool kWrong>
__global__ void use_then_load(float* out, const float* in) {
  __shared__ float tile[64];
  float sum = 0;
  for (unsigned t = 0; t < 2; ++t) {
    if (!kWrong) __syncthreads();
    tile[threadIdx.x] = in[64 * t + threadIdx.x];  // @overwrite
    __syncthreads();
    sum += tile[63 - threadIdx.x];  // @old
  }
  out[threadIdx.x] = sum;
}

// From block_reduce: the barrier after the warps have stored their sums.
template <bool kWrong>
__device__ float sum_of_warps(float value) {
  __shared__ float of_warp[2];
  for (unsigned partner = 16; partner > 0; partner /= 2) {
    value += __shfl_xor_sync(kAll, value, partner);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;  // @store-sum
  if (!kWrong) __syncthreads();
  return of_warp[0] + of_warp[1];  // @add-sums
}

template <bool kWrong>
__global__ void reduce(float* out, const float* in) {
  out[threadIdx.x] = sum_of_warps<kWrong>(in[threadIdx.x]);  // @reduce
}

// From block_reduce: the barrier at its end, if it is called twice.
template <bool kWrong>
__device__ float broadcast(float value) {
  __shared__ float first;
  if (threadIdx.x == 0) first = value;  // @store-first
  __syncthreads();
  const float result = first;  // @load-first
  if (!kWrong) __syncthreads();
  return result;
}

template <bool kWrong>
__global__ void broadcast_twice(float* out, const float* in) {
  const float mean = broadcast<kWrong>(in[threadIdx.x]);
  out[threadIdx.x] = mean + broadcast<kWrong>(in[threadIdx.x] - mean);  // @second
}

// The end of a reduction as it was written before Volta, when the lanes of a warp ran in step.
template <bool kWrong>
__global__ void in_step(float* out, const float* in) {
  __shared__ float partial[32];
  const unsigned lane = threadIdx.x;
  partial[lane] = in[lane];  // @step-store
  for (unsigned partner = 16; partner > 0; partner /= 2) {
    if (!kWrong) __syncwarp();
    const float other = lane < partner ? partial[lane + partner] : 0;  // @step-load
    if (!kWrong) __syncwarp();
    partial[lane] += other;
  }
  if (lane == 0) *out = partial[0];
}

// A shuffle makes lanes wait for each other, but orders no memory.
template <bool kWrong>
__global__ void shuffle_for_barrier(float* out, const float* in) {
  __shared__ float row[32];
  row[threadIdx.x] = in[threadIdx.x];  // @row-store
  __shfl_sync(kAll, 1, 0);
  if (!kWrong) __syncwarp();
  out[threadIdx.x] = row[threadIdx.x ^ 1];  // @row-load
}

// Each half of the warp waits for itself, but reads what the other half wrote.
template <bool kWrong>
__global__ void half_mask(float* out, const float* in) {
  __shared__ float row[32];
  row[threadIdx.x] = in[threadIdx.x];  // @half-store
  __syncwarp(kWrong ? (threadIdx.x < 16 ? 0xffffu : 0xffff0000u) : kAll);
  out[threadIdx.x] = row[threadIdx.x ^ 16];  // @half-load
}

// A warp's barrier where other warps wrote too.
template <bool kWrong>
__global__ void warp_for_block(float* out, const float* in) {
  __shared__ float row[64];
  row[threadIdx.x] = in[threadIdx.x];  // @warp-store
  if (kWrong) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = row[threadIdx.x ^ 32];  // @warp-load
}

// From total_kernel of kernels/cuda/norm.cu: fetching ahead into the half that is being read.
template <bool kWrong>
__global__ void double_buffer(float* out, const float* in) {
  __shared__ float next[2][32];
  next[0][threadIdx.x] = in[threadIdx.x];
  float total = 0;
  for (unsigned first = 0; first < 96; first += 32) {
    const unsigned half = first / 32 % 2;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned i = 0; i < 32; ++i) total += next[half][i];  // @half-read
    }
    next[kWrong ? half : 1 - half][threadIdx.x] = in[first + 32 + threadIdx.x];  // @ahead
  }
  if (threadIdx.x == 0) *out = total;
}

// A copy that runs ahead is waited for, but only by the thread that made its part of the copy.
template <bool kWrong>
__global__ void stale_stage(float* out, const float* in) {
  float* const stage = cuda::dynamic_shared<float>();
  cuda::begin_copy(stage + threadIdx.x, in + threadIdx.x, true);  // @stage
  cuda::commit_copies();
  cuda::wait_for_copies<0>();
  if (!kWrong) __syncthreads();
  out[threadIdx.x] = stage[(threadIdx.x + 32) % 64];  // @consume
}

// Counts of a histogram are cleared, and the first threads count before others have cleared.
template <bool kWrong>
__global__ void clear_and_count(int* out, const int* in) {
  __shared__ int counts[8];
  if (threadIdx.x < 8) counts[threadIdx.x] = 0;  // @clear
  if (!kWrong) __syncthreads();
  atomicAdd(&counts[in[threadIdx.x] % 8], 1);  // @count
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = counts[threadIdx.x];
}

// Two threads add to the same count at once.
template <bool kWrong>
__global__ void count_without_atomic(int* out, const int* in) {
  __shared__ int counts[8];
  if (threadIdx.x < 8) counts[threadIdx.x] = 0;
  __syncthreads();
  int* const count = &counts[in[threadIdx.x] % 8];
  if (kWrong) {
    *count += 1;  // @add
  } else {
    atomicAdd(count, 1);
  }
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = counts[threadIdx.x];
}

// The barrier is missing in one thread block alone, and its threads read before one of them writes.
template <bool kWrong>
__global__ void one_block_only(float* out, const float* in) {
  __shared__ float row[32];
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  const float first = row[0];  // @first-element
  if (!kWrong || blockIdx.x == 0) __syncthreads();
  if (threadIdx.x == 30) row[0] = first + 1;  // @second-block
  out[blockIdx.x * blockDim.x + threadIdx.x] = first;
}

// Halves of one word: a 2-byte write beside another thread's is no race, the same bytes are.
template <bool kWrong>
__global__ void halves(short* out) {
  __shared__ short row[64];
  row[threadIdx.x + (kWrong && threadIdx.x == 6)] = 1;  // @half-word
  __syncthreads();
  out[threadIdx.x] = row[kWrong ? 0 : threadIdx.x];
}

template <auto wrong_kernel, auto right_kernel>
void run_floats(bool wrong, unsigned threads, size_t shared_bytes = 0, unsigned blocks = 1) {
  const auto in = counted<float>(128);
  const DeviceArray<float> out(64);
  run<wrong_kernel, right_kernel>(wrong, {dim3(blocks), dim3(threads), shared_bytes}, out.data(),
                                  static_cast<const float*>(in.data()));
}

template <auto wrong_kernel, auto right_kernel>
void run_counts(bool wrong) {
  const auto in = counted<int>(32);
  const DeviceArray<int> out(8);
  run<wrong_kernel, right_kernel>(wrong, {dim3(1), dim3(32)}, out.data(),
                                  static_cast<const int*>(in.data()));
}

constexpr const char* kNoBarrier = ", and no barrier orders the two";

std::string race(const std::string& text) { return text + kNoBarrier; }

}  // namespace

std::vector<Bug> shared_races() {
  return {
      {"no barrier between loading a tile and using it",
       race("thread (32, 0, 0): race: writes 4 bytes of shared memory at @load, byte 128 of the "
            "256 bytes of tile; thread (31, 0, 0) read it at @use"),
       [](bool wrong) { run_floats<load_then_use<true>, load_then_use<false>>(wrong, 64); }},
      {"no barrier before a tile is overwritten",
       race("thread (0, 0, 0): race: reads 4 bytes of shared memory at @old, byte 252 of the 256 "
            "bytes of tile; thread (63, 0, 0) wrote it at @overwrite"),
       [](bool wrong) { run_floats<use_then_load<true>, use_then_load<false>>(wrong, 64); }},
      {"no barrier between the warps' sums and their sum",
       race("thread (0, 0, 0): race: writes 4 bytes of shared memory at @store-sum, byte 0 of the "
            "8 bytes of of_warp; thread (31, 0, 0) read it at @add-sums"),
       [](bool wrong) { run_floats<reduce<true>, reduce<false>>(wrong, 64); }},
      {"a buffer of a reduction is used again without a barrier",
       race("thread (0, 0, 0): race: writes 4 bytes of shared memory at @store-first, byte 0 of "
            "the 4 bytes of first; thread (63, 0, 0) read it at @load-first"),
       [](bool wrong) { run_floats<broadcast_twice<true>, broadcast_twice<false>>(wrong, 64); }},
      {"lanes that are believed to run in step",
       race("thread (1, 0, 0): race: writes 4 bytes of shared memory at @step-store, byte 4 of the "
            "128 bytes of partial; thread (0, 0, 0) read it at @step-load"),
       [](bool wrong) { run_floats<in_step<true>, in_step<false>>(wrong, 32); }},
      {"a shuffle in place of __syncwarp",
       race("thread (31, 0, 0): race: reads 4 bytes of shared memory at @row-load, byte 120 of the "
            "128 bytes of row; thread (30, 0, 0) wrote it at @row-store"),
       [](bool wrong) {
         run_floats<shuffle_for_barrier<true>, shuffle_for_barrier<false>>(wrong, 32);
       }},
      {"__syncwarp with a mask of half the warp",
       race("thread (16, 0, 0): race: writes 4 bytes of shared memory at @half-store, byte 64 of "
            "the 128 bytes of row; thread (0, 0, 0) read it at @half-load"),
       [](bool wrong) { run_floats<half_mask<true>, half_mask<false>>(wrong, 32); }},
      {"__syncwarp where __syncthreads is needed",
       race("thread (32, 0, 0): race: writes 4 bytes of shared memory at @warp-store, byte 128 of "
            "the 256 bytes of row; thread (0, 0, 0) read it at @warp-load"),
       [](bool wrong) { run_floats<warp_for_block<true>, warp_for_block<false>>(wrong, 64); }},
      {"the half of a double buffer that is being read is overwritten",
       race("thread (0, 0, 0): race: reads 4 bytes of shared memory at @half-read, byte 124 of the "
            "256 bytes of next; thread (31, 0, 0) wrote it at @ahead"),
       [](bool wrong) { run_floats<double_buffer<true>, double_buffer<false>>(wrong, 32); }},
      {"a stage of a pipeline is consumed before all threads have filled it",
       race("thread (32, 0, 0): race: writes 4 bytes of shared memory at "
            "kernels/cuda/tensor_core.h:?, called from @stage, byte 128 of the 256 bytes of "
            "dynamic shared memory; thread (0, 0, 0) read it at @consume"),
       [](bool wrong) { run_floats<stale_stage<true>, stale_stage<false>>(wrong, 64, 256); }},
      {"counting begins before all counts are cleared",
       race("thread (8, 0, 0): race: changes atomically 4 bytes of shared memory at @count, byte 0 "
            "of the 32 bytes of counts; thread (0, 0, 0) wrote it at @clear"),
       [](bool wrong) { run_counts<clear_and_count<true>, clear_and_count<false>>(wrong); }},
      {"threads add to one count without atomics",
       race("thread (7, 0, 0): race: reads 4 bytes of shared memory at @add, byte 28 of the 32 "
            "bytes of counts; thread (31, 0, 0) wrote it at @add"),
       [](bool wrong) {
         run_counts<count_without_atomic<true>, count_without_atomic<false>>(wrong);
       }},
      {"a barrier is missing in the second thread block alone",
       race("block (1, 0, 0): thread (30, 0, 0): race: writes 4 bytes of shared memory at "
            "@second-block, byte 0 of the 128 bytes of row; thread (31, 0, 0) read it at "
            "@first-element"),
       [](bool wrong) {
         run_floats<one_block_only<true>, one_block_only<false>>(wrong, 32, 0, 2);
       }},
      {"two threads write the same half of a word",
       race("thread (7, 0, 0): race: writes 2 bytes of shared memory at @half-word, byte 14 of the "
            "128 bytes of row; thread (6, 0, 0) wrote it at @half-word"),
       [](bool wrong) {
         const DeviceArray<short> out(64);
         run<halves<true>, halves<false>>(wrong, {dim3(1), dim3(64)}, out.data());
       }},
  };
}

}  // namespace ladder::planted
