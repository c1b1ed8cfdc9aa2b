// Threads that access the same global memory during one launch without an order between them.
#include "tests/kernels/emulator/planted/bugs.h"
#include "tests/kernels/emulator/planted/run.h"

namespace ladder::planted {
namespace {

// From embedding_backward: several thread blocks add to the same row.
template <bool kWrong>
__global__ void add_rows(float* table, const int* token) {
  float* const element = table + token[blockIdx.x] * blockDim.x + threadIdx.x;
  if (kWrong) {
    *element += 1;  // @accumulate
  } else {
    atomicAdd(element, 1);
  }
}

// A thread block reads what another one computes in the same launch.
template <bool kWrong>
__global__ void read_other_block(float* out, const float* in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];  // @own
  const unsigned other = kWrong ? (i + blockDim.x) % (gridDim.x * blockDim.x) : i;
  out[64 + i] = out[other];  // @other
}

// The loop's step is that of one thread block, so the thread blocks' elements overlap.
template <bool kWrong>
__global__ void grid_stride(float* x, unsigned n) {
  const unsigned step = kWrong ? blockDim.x : gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    x[i] = 2 * x[i];  // @twice
  }
}

// Shifts in place. Nobody knows who comes first.
template <bool kWrong>
__global__ void shift(float* x) {
  const float right = x[threadIdx.x + 1];  // @right
  if (!kWrong) __syncthreads();
  x[threadIdx.x] = right;  // @left
}

// The last thread block to finish adds the sums of all. Its counter says that the others are done,
// and the fence that their sums can be seen.
template <bool kWrong>
__global__ void last_block(float* out, float* partial, unsigned* counter) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = static_cast<float>(blockIdx.x);  // @partial
    if (!kWrong) __threadfence();
    is_last = atomicAdd(counter, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 1) return;
  float total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];  // @total
  *out = total;
}

// The same with a plain counter: two thread blocks may read the same number.
template <bool kWrong>
__global__ void plain_counter(unsigned* counter) {
  if (threadIdx.x != 0) return;
  if (kWrong) {
    *counter += 1;  // @counter
  } else {
    atomicAdd(counter, 1);
  }
}

// Every thread block clears what all add to.
template <bool kWrong>
__global__ void clear_in_kernel(int* total) {
  if (kWrong && threadIdx.x == 0) *total = 0;  // @zero
  __syncthreads();
  atomicAdd(total, 1);  // @sum
}

std::string between_blocks(const std::string& text) {
  return text + ", and nothing orders the thread blocks of a launch";
}

}  // namespace

std::vector<Bug> global_races() {
  return {
      {"several thread blocks add to the same row without atomics",
       between_blocks("thread (0, 0, 0): race: reads 4 bytes of global memory at @accumulate, "
                      "byte 128 of the 256 bytes at 0x?; thread (0, 0, 0) of block (0, 0, 0) wrote "
                      "it at @accumulate"),
       [](bool wrong) {
         const DeviceArray<float> table(std::vector<float>(64));
         const DeviceArray<int> token(std::vector<int>{1, 0, 1});
         run<add_rows<true>, add_rows<false>>(wrong, {dim3(3), dim3(32)}, table.data(),
                                              static_cast<const int*>(token.data()));
       }},
      {"a thread block reads another one's output of the same launch",
       between_blocks(
           "thread (0, 0, 0): race: writes 4 bytes of global memory at @own, byte 128 of the 512 "
           "bytes at 0x?; thread (0, 0, 0) of block (0, 0, 0) read it at @other"),
       [](bool wrong) {
         const auto in = counted<float>(64);
         const DeviceArray<float> out(std::vector<float>(128));
         run<read_other_block<true>, read_other_block<false>>(
             wrong, {dim3(2), dim3(32)}, out.data(), static_cast<const float*>(in.data()));
       }},
      {"a grid-stride loop with the stride of one thread block",
       between_blocks("thread (0, 0, 0): race: reads 4 bytes of global memory at @twice, byte 128 "
                      "of the 400 bytes at 0x?; thread (0, 0, 0) of block (0, 0, 0) wrote it at "
                      "@twice"),
       [](bool wrong) {
         const auto x = counted<float>(100);
         run<grid_stride<true>, grid_stride<false>>(wrong, {dim3(2), dim3(32)}, x.data(), 100u);
       }},
      {"a shift in place without a barrier",
       "thread (1, 0, 0): race: writes 4 bytes of global memory at @left, byte 4 of the 260 bytes "
       "at 0x?; thread (0, 0, 0) read it at @right, and no barrier orders the two",
       [](bool wrong) {
         const auto x = counted<float>(65);
         run<shift<true>, shift<false>>(wrong, {dim3(1), dim3(64)}, x.data());
       }},
      {"the last thread block adds sums that no fence has published",
       between_blocks("thread (1, 0, 0): race: reads 4 bytes of global memory at @total, byte 0 of "
                      "the 16 bytes at 0x?; thread (0, 0, 0) of block (0, 0, 0) wrote it at "
                      "@partial"),
       [](bool wrong) {
         const DeviceArray<float> out(1), partial(4);
         const DeviceArray<unsigned> counter(std::vector<unsigned>{0});
         run<last_block<true>, last_block<false>>(wrong, {dim3(4), dim3(32)}, out.data(),
                                                  partial.data(), counter.data());
         if (!wrong) CHECK(out.values()[0] == 6);
       }},
      {"a counter of thread blocks that is no atomic",
       between_blocks("thread (0, 0, 0): race: reads 4 bytes of global memory at @counter, byte 0 "
                      "of the 4 bytes at 0x?; thread (0, 0, 0) of block (0, 0, 0) wrote it at "
                      "@counter"),
       [](bool wrong) {
         const DeviceArray<unsigned> counter(std::vector<unsigned>{0});
         run<plain_counter<true>, plain_counter<false>>(wrong, {dim3(4), dim3(32)}, counter.data());
       }},
      {"every thread block clears the sum to which all add",
       between_blocks("thread (0, 0, 0): race: writes 4 bytes of global memory at @zero, byte 0 of "
                      "the 4 bytes at 0x?; thread (0, 0, 0) of block (0, 0, 0) wrote it at @zero"),
       [](bool wrong) {
         const DeviceArray<int> total(std::vector<int>{0});
         run<clear_in_kernel<true>, clear_in_kernel<false>>(wrong, {dim3(2), dim3(32)},
                                                            total.data());
       }},
  };
}

}  // namespace ladder::planted
