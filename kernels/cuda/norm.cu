#include "kernels/norm.h"

#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kLanes = 8;       // kernels/norm.h promises them and their order
constexpr unsigned kPartials = 256;  // how many partial sums total_kernel fetches at once

struct Identity {
  __device__ double operator()(double x) const { return x; }
};
struct Square {
  __device__ double operator()(double x) const { return x * x; }
};

// Sets partial[chunk] to the sum of term over one chunk of kSumChunk elements. A chunk has eight
// threads, one for each lane. They read neighbouring elements: 32 bytes of fp32, which is the least
// that memory gives, so nothing is fetched in vain.
template <class T, class Term>
__global__ void partial_sums_kernel(double* partial, const T* in, size_t n, Term term) {
  const size_t chunk = thread_index() / kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const size_t first = chunk * kSumChunk;
  const size_t size = first >= n ? 0 : (n - first < kSumChunk ? n - first : kSumChunk);
  double total = 0;
  if (size == kSumChunk) {  // the number of rounds is known, so loads can run ahead of additions
#pragma unroll 16
    for (unsigned i = 0; i < kSumChunk; i += kLanes) total += term(in[first + lane + i]);
  } else {
    for (size_t i = lane; i < size; i += kLanes) total += term(in[first + i]);
  }
  total = warp_reduce<kLanes>(total, Sum());  // adds halves, in the order that norm.h gives
  if (lane == 0 && size > 0) partial[chunk] = total;
}

// out = ((partial[0] + partial[1]) + partial[2]) + ... One thread adds while the other threads of
// its thread block fetch the next partial sums. The chain of additions takes some nanoseconds for
// each kSumChunk elements, less than reading them.
__global__ void total_kernel(double* out, const double* partial, size_t count) {
  __shared__ double next[2][kPartials];
  const unsigned thread = threadIdx.x;
  double total = 0;
  if (thread < count) next[0][thread] = partial[thread];
  for (size_t first = 0; first < count; first += kPartials) {
    const unsigned half = first / kPartials % 2;
    const size_t ahead = first + kPartials + thread;
    __syncthreads();
    if (ahead < count) next[1 - half][thread] = partial[ahead];
    if (thread > 0) continue;
    const size_t size = count - first < kPartials ? count - first : kPartials;
    for (size_t i = 0; i < size; ++i) total += next[half][i];
  }
  if (thread == 0) *out = total;
}

template <class Term>
void sum_in_blocks(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in,
                   Term term) {
  const size_t n = in.num_elements(), blocks = sum_workspace_elements(n);
  double* const partial = workspace.as<double>();
  dispatch_accumulation(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    launch<partial_sums_kernel<T, Term>>(stream.native(), threads_for(blocks * kLanes), partial,
                                         in.as<T>(), n, term);
  });
  launch<total_kernel>(stream.native(), {dim3(1), dim3(kPartials)}, out.as<double>(), partial,
                       blocks);
}

}  // namespace

void squared_norm(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_blocks(stream, out, workspace, in, Square());
}

void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_blocks(stream, out, workspace, in, Identity());
}

}  // namespace ladder::cuda
