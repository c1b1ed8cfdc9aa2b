// Reads of what nobody has written, and waits for threads that never come.
#include "kernels/cuda/tensor_core.h"
#include "tests/kernels/emulator/planted/bugs.h"
#include "tests/kernels/emulator/planted/run.h"

namespace ladder::planted {
namespace {

constexpr unsigned kAll = 0xffffffff;

// A shared sum is added to before it is cleared.
template <bool kWrong>
__global__ void sum_not_cleared(float* out, const float* in) {
  __shared__ float sum;
  if (!kWrong && threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[threadIdx.x]);  // @shared-sum
  __syncthreads();
  if (threadIdx.x == 0) *out = sum;
}

// A workspace is added to before anything clears it.
template <bool kWrong>
__global__ void add_to_workspace(float* workspace, const float* in) {
  atomicAdd(workspace, in[threadIdx.x]);  // @workspace
}

// From load_tile of attention: without zeros in the rows after the last token.
template <bool kWrong>
__global__ void partial_tile(float* out, const float* in, unsigned rows) {
  __shared__ float tile[32];
  if (threadIdx.x < rows) {
    tile[threadIdx.x] = in[threadIdx.x];
  } else if (!kWrong) {
    tile[threadIdx.x] = 0;
  }
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];  // @padding
}

// Shared memory does not keep what the thread block before left there.
template <bool kWrong>
__global__ void left_by_block_before(float* out) {
  __shared__ float kept;
  if (threadIdx.x == 0 && (blockIdx.x == 0 || !kWrong)) kept = 1;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = kept;  // @kept
}

// Only even elements are written: half of each 4 bytes.
template <bool kWrong>
__global__ void every_other(short* out, unsigned step) {
  __shared__ short row[64];
  for (unsigned i = threadIdx.x * step; i < 64; i += 32 * step) row[i] = 1;
  __syncthreads();
  out[threadIdx.x] = row[2 * threadIdx.x + kWrong];  // @odd
}

// A copy within the device copies no values that are not there.
template <bool kWrong>
__global__ void copy_of_nothing(float* out, const float* in) {
  out[threadIdx.x] = in[threadIdx.x];  // @copied
}

// A barrier does not wait for a copy that goes on by itself.
template <bool kWrong>
__global__ void copy_not_awaited(float* out, const float* in) {
  float* const stage = cuda::dynamic_shared<float>();
  cuda::begin_copy(stage + threadIdx.x, in + threadIdx.x, true);
  cuda::commit_copies();
  if (!kWrong) cuda::wait_for_copies<0>();
  __syncthreads();
  out[threadIdx.x] = stage[31 - threadIdx.x];  // @too-early
}

// Rows of a tile for ldmatrix, of which one is not loaded.
template <bool kWrong>
__global__ void missing_row(float* out, const float* in) {
  auto* const tile = cuda::dynamic_shared<float4>();
  if (threadIdx.x < 32 - kWrong) tile[threadIdx.x] = make_float4(in[threadIdx.x], 0, 0, 0);
  __syncthreads();
  cuda::Fragment fragment;
  cuda::load_matrices(fragment, tile + threadIdx.x);  // @ldmatrix
  out[threadIdx.x] = static_cast<float>(fragment[0]);
}

template <bool kWrong>
__global__ void divergent_barrier(float* out, const float* in) {
  if (!kWrong || in[threadIdx.x] < 16) __syncthreads();  // @branch
  out[threadIdx.x] = in[threadIdx.x];
}

template <bool kWrong>
__global__ void early_return(float* out, const float* in, unsigned n) {
  if (kWrong && threadIdx.x >= n) return;
  const float x = threadIdx.x < n ? in[threadIdx.x] : 0;
  __syncthreads();  // @late
  if (threadIdx.x < n) out[threadIdx.x] = x;
}

// The last warp of 40 threads has 8 lanes.
template <bool kWrong>
__global__ void partial_warp(float* out, const float* in) {
  const unsigned mask = kWrong || threadIdx.x < 32 ? kAll : 0xff;
  out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 1);  // @lanes
}

template <auto wrong_kernel, auto right_kernel, class... More>
void run_floats(bool wrong, unsigned threads, More... more) {
  const auto in = counted<float>(64);
  const DeviceArray<float> out(64);
  run<wrong_kernel, right_kernel>(wrong, {dim3(1), dim3(threads), 512}, out.data(),
                                  static_cast<const float*>(in.data()), more...);
}

}  // namespace

std::vector<Bug> undefined_reads() {
  return {
      {"a shared sum that is not cleared",
       "thread (31, 0, 0): uninitialized: changes atomically 4 bytes of shared memory at "
       "@shared-sum, which nobody has written: byte 0 of the 4 bytes of sum",
       [](bool wrong) { run_floats<sum_not_cleared<true>, sum_not_cleared<false>>(wrong, 32); }},
      {"a workspace that is not cleared",
       "thread (0, 0, 0): uninitialized: changes atomically 4 bytes of global memory at "
       "@workspace, which nobody has written: byte 0 of the 4 bytes at 0x?",
       [](bool wrong) {
         const auto in = counted<float>(32);
         const DeviceArray<float> workspace(1);
         if (!wrong) cudaMemset(workspace.data(), 0, sizeof(float));
         run<add_to_workspace<true>, add_to_workspace<false>>(
             wrong, {dim3(1), dim3(32)}, workspace.data(), static_cast<const float*>(in.data()));
       }},
      {"the last tile's padding is not cleared",
       "thread (0, 0, 0): uninitialized: reads 4 bytes of shared memory at @padding, which nobody "
       "has written: byte 124 of the 128 bytes of tile",
       [](bool wrong) { run_floats<partial_tile<true>, partial_tile<false>>(wrong, 32, 20u); }},
      {"shared memory is expected to keep its values",
       "thread (31, 0, 0): uninitialized: reads 4 bytes of shared memory at @kept, which nobody "
       "has written: byte 0 of the 4 bytes of kept",
       [](bool wrong) {
         const DeviceArray<float> out(64);
         run<left_by_block_before<true>, left_by_block_before<false>>(wrong, {dim3(2), dim3(32)},
                                                                      out.data());
       }},
      {"half of a word is not written",
       "thread (31, 0, 0): uninitialized: reads 2 bytes of shared memory at @odd, which nobody has "
       "written: byte 126 of the 128 bytes of row",
       [](bool wrong) {
         const DeviceArray<short> out(32);
         run<every_other<true>, every_other<false>>(wrong, {dim3(1), dim3(32)}, out.data(), 2u);
       }},
      {"a copy of memory that nobody has written",
       "thread (16, 0, 0): uninitialized: reads 4 bytes of global memory at @copied, which nobody "
       "has written: byte 64 of the 128 bytes at 0x?",
       [](bool wrong) {
         const std::vector<float> values(32);
         const DeviceArray<float> from(32), to(32), out(32);
         const size_t bytes = (wrong ? 16 : 32) * sizeof(float);
         cudaMemcpy(from.data(), values.data(), bytes, cudaMemcpyHostToDevice);
         cudaMemcpy(to.data(), from.data(), 32 * sizeof(float), cudaMemcpyDeviceToDevice);
         run<copy_of_nothing<true>, copy_of_nothing<false>>(wrong, {dim3(1), dim3(32)}, out.data(),
                                                            static_cast<const float*>(to.data()));
       }},
      {"a barrier in place of the wait for a copy",
       "thread (31, 0, 0): uninitialized: reads 4 bytes of shared memory at @too-early, which "
       "nobody has written: byte 0 of the 512 bytes of dynamic shared memory",
       [](bool wrong) { run_floats<copy_not_awaited<true>, copy_not_awaited<false>>(wrong, 32); }},
      {"a row that ldmatrix loads is not written",
       "thread (31, 0, 0): uninitialized: reads 16 bytes of shared memory at "
       "kernels/emulator/tensor_core.h:?, called from @ldmatrix, which "
       "nobody has written: byte 496 of the 512 bytes of dynamic shared memory",
       [](bool wrong) { run_floats<missing_row<true>, missing_row<false>>(wrong, 32); }},
  };
}

std::vector<Bug> bad_waits() {
  return {
      {"a barrier in a branch that not all threads take",
       "threads wait for others that will never come: 16 threads, the first (0, 0, 0), in "
       "__syncthreads at @branch; 16 threads, the first (16, 0, 0), returned",
       [](bool wrong) {
         run_floats<divergent_barrier<true>, divergent_barrier<false>>(wrong, 32);
       }},
      {"threads return before a barrier",
       "threads wait for others that will never come: 20 threads, the first (0, 0, 0), in "
       "__syncthreads at @late; 12 threads, the first (20, 0, 0), returned",
       [](bool wrong) { run_floats<early_return<true>, early_return<false>>(wrong, 32, 20u); }},
      {"a shuffle whose mask names lanes that the last warp does not have",
       "thread (32, 0, 0): in __shfl_xor_sync at @lanes: the mask 0xffffffff names lanes that the "
       "block does not have: this warp has 8",
       [](bool wrong) { run_floats<partial_warp<true>, partial_warp<false>>(wrong, 40); }},
  };
}

}  // namespace ladder::planted
