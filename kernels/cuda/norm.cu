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

// A kernel's arguments have at most 4 KiB.
constexpr unsigned kMostTensors = 64;
template <class T>
struct Summed {
  const T* in;
  size_t count;                    // elements
  size_t first_tile, first_group;  // those of the tensors before it come first
};
template <class T>
struct Tensors {
  unsigned count = 0;
  size_t tiles = 0, groups = 0;  // of all
  Summed<T> tensor[kMostTensors];

  void add(const T* in, size_t n) {
    const size_t own = sum_workspace_elements(n);
    tensor[count++] = {in, n, tiles, groups};
    tiles += own;
    groups += (own + kSumGroup - 1) / kSumGroup;
  }
  // Returns the last tensor whose first tile, or group, is `at` or one before it.
  __device__ const Summed<T>& find(size_t Summed<T>::*first, size_t at) const {
    unsigned found = 0;
    for (unsigned step = kMostTensors / 2; step > 0; step /= 2) {
      const unsigned next = found + step;
      if (next < count && tensor[next].*first <= at) found = next;
    }
    return tensor[found];
  }
};
static_assert(sizeof(Tensors<double>) + 64 <= 4096);

// Sets partial[tile] to the sum of term over one tile of kSumTile elements. A tile has eight
// threads, one for each lane. They read neighbouring elements: 32 bytes of fp32, which is the least
// that memory gives, so nothing is fetched in vain.
template <class T, class Term>
__global__ void partial_sums_kernel(double* partial, Tensors<T> tensors, Term term) {
  const size_t tile = thread_index() / kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const Summed<T>& tensor = tensors.find(&Summed<T>::first_tile, tile);
  const T* const in = tensor.in;
  const size_t first = (tile - tensor.first_tile) * kSumTile, n = tensor.count;
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

// Returns in[0] + in[stride] + ..., `count` sums in index order, to thread 0 of the thread block.
// One thread adds what the others have fetched; a chain of 1024 additions takes some microseconds.
__device__ double sum_in_order(const double* in, size_t count, size_t stride) {
  __shared__ double fetched[kSumGroup];
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kSumGroup) {
    const size_t here = count - begin < kSumGroup ? count - begin : kSumGroup;
    __syncthreads();  // the sums before these have been added
    for (size_t i = threadIdx.x; i < here; i += blockDim.x) {
      fetched[i] = in[(begin + i) * stride];
    }
    __syncthreads();
    if (threadIdx.x > 0) continue;
    for (size_t i = 0; i < here; ++i) total += fetched[i];
  }
  return total;
}

// Each thread block adds the tiles of a group, and leaves the sum where its first tile's was.
template <class T>
__global__ void groups_kernel(double* partial, Tensors<T> tensors) {
  const Summed<T>& tensor = tensors.find(&Summed<T>::first_group, blockIdx.x);
  const size_t tiles = (tensor.count + kSumTile - 1) / kSumTile;
  const size_t first = (blockIdx.x - tensor.first_group) * kSumGroup;
  double* const own = partial + tensor.first_tile + first;
  const size_t left = tiles - first;
  const double total = sum_in_order(own, left < kSumGroup ? left : kSumGroup, 1);
  if (threadIdx.x == 0) *own = total;
}

// Each thread block adds the groups of a tensor.
template <class T>
__global__ void totals_kernel(double* out, const double* partial, Tensors<T> tensors) {
  const Summed<T>& tensor = tensors.tensor[blockIdx.x];
  const size_t groups = (tensor.count + kSumTile * kSumGroup - 1) / (kSumTile * kSumGroup);
  const double total = sum_in_order(partial + tensor.first_tile, groups, kSumGroup);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

template <class Term>
void sum_all(Stream& stream, TensorView out, TensorView workspace,
             const std::vector<ConstTensorView>& in, Term term) {
  double* const partial = workspace.as<double>();
  const dim3 threads(256);
  dispatch_accumulation(in.front().dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (size_t begin = 0; begin < in.size(); begin += kMostTensors) {
      Tensors<T> tensors;
      const size_t end = std::min(begin + kMostTensors, in.size());
      for (size_t t = begin; t < end; ++t) tensors.add(in[t].as<T>(), in[t].num_elements());
      launch<partial_sums_kernel<T, Term>>(stream.native(), threads_for(tensors.tiles * kLanes),
                                           partial, tensors, term);
      const dim3 groups(static_cast<unsigned>(tensors.groups)), totals(tensors.count);
      launch<groups_kernel<T>>(stream.native(), {groups, threads}, partial, tensors);
      launch<totals_kernel<T>>(stream.native(), {totals, threads}, out.as<double>() + begin,
                               partial, tensors);
    }
  });
}

}  // namespace

void squared_norms(Stream& stream, TensorView out, TensorView workspace,
                   const std::vector<ConstTensorView>& in) {
  sum_all(stream, out, workspace, in, Square());
}

void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  sum_all(stream, out, workspace, {in}, Identity());
}

}  // namespace ladder::cuda
