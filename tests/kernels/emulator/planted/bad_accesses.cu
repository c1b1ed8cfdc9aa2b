// Accesses to memory that is not there, or not as the instruction needs it.
#include <cstdint>

#include "kernels/emulator/device_model.h"
#include "tests/kernels/emulator/planted/bugs.h"
#include "tests/kernels/emulator/planted/run.h"

namespace ladder::planted {
namespace {

// `<=` for `<`.
template <bool kWrong>
__global__ void one_too_many(float* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (kWrong ? i <= n : i < n) out[i] = 0;  // @bound
}

// A stencil that forgets the last element has no right neighbour.
template <bool kWrong>
__global__ void halo(float* out, const float* in, unsigned n) {
  const unsigned i = threadIdx.x;
  const float right = kWrong || i + 1 < n ? in[i + 1] : 0;  // @halo
  out[i] = in[i] + right;
}

// The left neighbour of the first element is another array's last gap.
template <bool kWrong>
__global__ void left_halo(float* out, const float* in) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = kWrong || i > 0 ? in[i - 1] : 0;  // @left-halo
}

// One element short for the threads of the block.
template <bool kWrong>
__global__ void shared_too_small(float* out) {
  __shared__ float row[kWrong ? 31 : 32];
  row[threadIdx.x] = 1;  // @row
  __syncthreads();
  out[threadIdx.x] = row[0];
}

// The index of a row runs into the next one. The address is still within the tile.
template <bool kWrong>
__global__ void into_next_row(float* out) {
  __shared__ float tile[2][32];
  tile[0][threadIdx.x + kWrong] = 1;  // @next-row
  __syncthreads();
  out[threadIdx.x] = tile[0][1];
}

// The second of two arrays in dynamic shared memory begins after the first, not after its count.
template <bool kWrong>
__global__ void dynamic_too_small(float* out) {
  float* const a = cuda::dynamic_shared<float>();
  float* const b = a + blockDim.x + kWrong;
  b[threadIdx.x] = 1;  // @dynamic
  out[threadIdx.x] = b[threadIdx.x];
}

// Rows of 5 elements: only every fourth row begins on 16 bytes.
template <bool kWrong>
__global__ void wide_load(float* out, const float* in, unsigned row_size) {
  const auto* const row = in + threadIdx.x * (kWrong ? row_size : 8);
  const float4 x = *reinterpret_cast<const float4*>(row);  // @wide
  out[threadIdx.x] = x.x + x.y + x.z + x.w;
}

// 50,000 x 50,000 does not fit in 32 bits.
template <bool kWrong>
__global__ void index_overflow(float* out, int row, int row_size) {
  if (kWrong) {
    const int at = static_cast<int>(static_cast<unsigned>(row) * static_cast<unsigned>(row_size));
    out[at] = 1;  // @overflow
  } else {
    out[static_cast<int64_t>(row) * row_size] = 1;
  }
}

struct Batch {  // a launch does not look for pointers in here
  float* data;
};

template <bool kWrong>
__global__ void store_in(Batch batch) {
  batch.data[threadIdx.x] = 1;  // @batch
}

float host_counter = 0;

template <bool kWrong>
__global__ void count_on_host(float* out) {
  (kWrong ? host_counter : *out) = 1;  // @host-variable
}

template <auto wrong_kernel, auto right_kernel, class... More>
void run_to(bool wrong, size_t elements, const cuda::LaunchShape& shape, More... more) {
  const DeviceArray<float> out(elements);
  run<wrong_kernel, right_kernel>(wrong, shape, out.data(), more...);
}

template <auto wrong_kernel, auto right_kernel, class... More>
void run_from(bool wrong, size_t elements, More... more) {
  const auto in = counted<float>(elements);
  run_to<wrong_kernel, right_kernel>(wrong, 32, {dim3(1), dim3(32)},
                                     static_cast<const float*>(in.data()), more...);
}

__global__ void static_and_dynamic() {
  __shared__ float row[1024];
  row[threadIdx.x] = 1;
  __syncthreads();
  cuda::dynamic_shared<float>()[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

std::vector<Bug> bad_accesses() {
  return {
      {"a bounds check with <= for <",
       "thread (4, 0, 0): out of bounds: writes 4 bytes of global memory at @bound: 0 bytes behind "
       "the 400 bytes at 0x?",
       [](bool wrong) {
         run_to<one_too_many<true>, one_too_many<false>>(wrong, 100, {dim3(4), dim3(32)}, 100u);
       }},
      {"a stencil reads the right neighbour of the last element",
       "thread (31, 0, 0): out of bounds: reads 4 bytes of global memory at @halo: 0 bytes behind "
       "the 128 bytes at 0x?",
       [](bool wrong) { run_from<halo<true>, halo<false>>(wrong, 32, 32u); }},
      {"a stencil reads the left neighbour of the first element",
       "thread (0, 0, 0): out of bounds: reads 4 bytes of global memory at @left-halo: ",
       [](bool wrong) { run_from<left_halo<true>, left_halo<false>>(wrong, 32); }},
      {"a shared array that is one element too small",
       "thread (31, 0, 0): out of bounds: index 31 of an array 'float [31]' at @row",
       [](bool wrong) {
         run_to<shared_too_small<true>, shared_too_small<false>>(wrong, 32, {dim3(1), dim3(32)});
       }},
      {"an index that runs into the next row of a tile",
       "thread (31, 0, 0): out of bounds: index 32 of an array 'float [32]' at @next-row",
       [](bool wrong) {
         run_to<into_next_row<true>, into_next_row<false>>(wrong, 32, {dim3(1), dim3(32)});
       }},
      {"a dynamic shared array that begins too late",
       "thread (31, 0, 0): out of bounds: writes 4 bytes of shared memory at @dynamic: byte 256 of "
       "the 256 bytes of dynamic shared memory",
       [](bool wrong) {
         run_to<dynamic_too_small<true>, dynamic_too_small<false>>(wrong, 32,
                                                                   {dim3(1), dim3(32), 256});
       }},
      {"16 bytes are loaded from an address that is no multiple of 16",
       "thread (1, 0, 0): misaligned: access to 'const struct float4' at @wide, at an address that "
       "is "
       "no multiple of 16",
       [](bool wrong) { run_from<wide_load<true>, wide_load<false>>(wrong, 256, 5u); }},
      {"an index that does not fit in 32 bits",
       "thread (0, 0, 0): out of bounds: writes 4 bytes of global memory at @overflow, which is "
       "neither device memory nor pinned memory of the host",
       [](bool wrong) {
         run_to<index_overflow<true>, index_overflow<false>>(
             wrong, 64, {dim3(1), dim3(1)}, wrong ? 50'000 : 5, wrong ? 50'000 : 5);
       }},
      {"memory that was freed, in a struct",
       "thread (0, 0, 0): out of bounds: writes 4 bytes of global memory at @batch: ",
       [](bool wrong) {
         const DeviceArray<float> alive(32);
         Batch batch = {alive.data()};
         {
           const DeviceArray<float> gone(32);
           if (wrong) batch.data = gone.data();
         }
         run<store_in<true>, store_in<false>>(wrong, {dim3(1), dim3(32)}, batch);
       }},
      {"memory of the host, in a struct",
       "thread (0, 0, 0): out of bounds: writes 4 bytes of global memory at @batch, which is "
       "neither device memory nor pinned memory of the host",
       [](bool wrong) {
         std::vector<float> on_host(32);
         const DeviceArray<float> on_device(32);
         run<store_in<true>, store_in<false>>(wrong, {dim3(1), dim3(32)},
                                              Batch{wrong ? on_host.data() : on_device.data()});
       }},
      {"a variable of the host",
       "thread (0, 0, 0): out of bounds: writes 4 bytes of memory at @host-variable, which is the "
       "host's variable host_counter",
       [](bool wrong) {
         run_to<count_on_host<true>, count_on_host<false>>(wrong, 1, {dim3(1), dim3(1)});
         CHECK(host_counter == 0);
       }},
  };
}

std::vector<Bug> bad_shapes() {
  return {
      {"more dynamic shared memory than an A100 has",
       "bytes of dynamic shared memory failed: invalid argument",
       [](bool wrong) {
         const emulator::WithDeviceModel model(wrong ? "a100" : "h100");
         launch<static_and_dynamic>(nullptr, {dim3(1), dim3(1), 200 << 10});
       }},
      {"shared variables and dynamic shared memory that do not fit together",
       "thread (0, 0, 0): too much shared memory: 4096 bytes of __shared__ variables and 166912 "
       "bytes of dynamic shared memory, where the device allows 166912",
       [](bool wrong) {
         const size_t bytes = (163 << 10) - (wrong ? 0 : 4096);
         launch<static_and_dynamic>(nullptr, {dim3(1), dim3(1), bytes});
       }},
  };
}

}  // namespace ladder::planted
