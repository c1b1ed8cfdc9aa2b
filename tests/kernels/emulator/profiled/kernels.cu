#include "tests/kernels/emulator/profiled/kernels.h"

#include "kernels/cuda/pack.h"
#include "kernels/cuda/tensor_core.h"

namespace ladder::profiled {
namespace {

using namespace ladder::cuda;

__global__ void copy_kernel(float* out, const float* in, size_t apart) {
  out[thread_index()] = in[apart * thread_index()];
}

__global__ void copy_packs_kernel(float* out, const float* in) {
  store(out + 4 * thread_index(), load<4>(in + 4 * thread_index()));
}

__global__ void copy_in_some_lanes_kernel(float* out, const float* in, unsigned lanes) {
  if (lane_index() < lanes) out[thread_index()] = in[thread_index()];
}

__global__ void store_shared_kernel(unsigned apart) {
  float* const words = dynamic_shared<float>();
  words[apart * lane_index()] = 1;
}

__global__ void store_shared_packs_kernel(unsigned apart) {
  float* const words = dynamic_shared<float>();
  store(words + 4 * apart * lane_index(), Pack<float, 4>{{1, 2, 3, 4}});
}

__global__ void compute_kernel(float* out) {
  float x = out[threadIdx.x];
  x = std::fma(x, x, x);
  x = std::fma(x, x, x);
  out[threadIdx.x] = std::fma(x, x, x);
}

__global__ void multiply_kernel() {
  float sums[4] = {};
  const unsigned a[4] = {};
  mma<bfloat16>(sums, a, 0, 0);
}

}  // namespace

void copy(float* out, const float* in, size_t apart, unsigned blocks) {
  launch<copy_kernel>(nullptr, {dim3(blocks), dim3(kThreads)}, out, in, apart);
}
void copy_packs(float* out, const float* in) {
  launch<copy_packs_kernel>(nullptr, {dim3(1), dim3(kThreads)}, out, in);
}
void copy_in_some_lanes(float* out, const float* in, unsigned lanes) {
  launch<copy_in_some_lanes_kernel>(nullptr, {dim3(1), dim3(kThreads)}, out, in, lanes);
}
void store_shared(unsigned apart) {
  launch<store_shared_kernel>(nullptr, {dim3(1), dim3(kThreads), 32 * apart * sizeof(float)},
                              apart);
}
void store_shared_packs(unsigned apart) {
  launch<store_shared_packs_kernel>(
      nullptr, {dim3(1), dim3(kThreads), 4 * 32 * apart * sizeof(float)}, apart);
}
void compute(float* out) { launch<compute_kernel>(nullptr, {dim3(1), dim3(kThreads)}, out); }
void multiply() { launch<multiply_kernel>(nullptr, {dim3(1), dim3(kThreads)}); }

}  // namespace ladder::profiled
