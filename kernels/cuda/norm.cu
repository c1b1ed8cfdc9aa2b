#include "kernels/norm.h"

#include <algorithm>

#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kLanes = 8;  // kernels/norm.h promises them and their order

struct Identity {
  __device__ double operator()(double x) const { return x; }
};
struct Square {
  __device__ double operator()(double x) const { return x * x; }
};

// Sets partial[tile] to the sum of term over one tile of kSumTile elements. A tile has eight
// threads, one for each lane. They read neighbouring elements: 32 bytes of fp32, which is the least
// that memory gives, so nothing is fetched in vain.
template <class T, class Term>
__global__ void partial_sums_kernel(double* partial, const T* in, size_t n, Term term) {
  const size_t tile = thread_index() / kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const size_t first = tile * kSumTile;
  const size_t size = first >= n ? 0 : (n - first < kSumTile ? n - first : kSumTile);
  double total = 0;
  if (size == kSumTile) {  // the number of rounds is known, so loads can run ahead of additions
#pragma unroll 16
    for (unsigned i = 0; i < kSumTile; i += kLanes) total += term(in[first + lane + i]);
  } else {
    for (size_t i = lane; i < size; i += kLanes) total += term(in[first + i]);
  }
  total = warp_reduce<kLanes>(total, Sum());  // adds halves, in the order that norm.h gives
  if (lane == 0 && size > 0) partial[tile] = total;
}

// Each thread block adds, in index order, up to `size` of the sums in[0], in[stride], ...: block b
// writes ((in[first] + in[first + stride]) + ...), where first = b * size, to out[first]. One
// thread adds what the others have fetched; a chain of 1024 additions takes some microseconds.
__global__ void total_kernel(double* out, const double* in, size_t count, size_t size,
                             size_t stride) {
  __shared__ double fetched[kSumGroup];
  const size_t first = blockIdx.x * size, end = first + size < count ? first + size : count;
  double total = 0;
  for (size_t begin = first; begin < end; begin += kSumGroup) {
    const size_t here = end - begin < kSumGroup ? end - begin : kSumGroup;
    __syncthreads();  // the sums before these have been added
    for (size_t i = threadIdx.x; i < here; i += blockDim.x) {
      fetched[i] = in[(begin + i) * stride];
    }
    __syncthreads();
    if (threadIdx.x > 0) continue;
    for (size_t i = 0; i < here; ++i) total += fetched[i];
  }
  if (threadIdx.x == 0) out[first] = total;
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
  const size_t groups = (blocks + kSumGroup - 1) / kSumGroup;
  const dim3 threads(256);
  launch<total_kernel>(stream.native(), {dim3(static_cast<unsigned>(groups)), threads}, partial,
                       partial, blocks, kSumGroup, size_t{1});
  launch<total_kernel>(stream.native(), {dim3(1), threads}, out.as<double>(), partial, groups,
                       std::max<size_t>(groups, 1), kSumGroup);
}

}  // namespace

void squared_norm(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_blocks(stream, out, workspace, in, Square());
}

void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_blocks(stream, out, workspace, in, Identity());
}

}  // namespace ladder::cuda
