#include "kernels/attention_merge.h"

#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_mma_tile.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

// A warp has one query of one head: query i % count of head i / count, counted through all
// sequences.
struct OwnQuery {
  size_t head, query;

  __device__ explicit OwnQuery(size_t count) {
    const size_t warp = thread_index() / kWarpSize;
    head = warp / count;
    query = warp % count;
  }
};

// Merges queries [first, first + count).
template <class T>
__global__ void merge_kernel(T* out, T* logsumexp, const T* partial_out, const T* partial_logsumexp,
                             Heads heads, size_t all_heads, size_t first, size_t count) {
  const OwnQuery own(count);
  if (own.head >= all_heads) return;
  const size_t t = first + own.query, row = own.head * heads.tokens + t;
  const T l = logsumexp[row], m = partial_logsumexp[row];
  // The larger of the two is taken off both, so that no exponential exceeds 1.
  const T largest = std::fmax(l, m);
  const T ours = std::exp(l - largest), theirs = std::exp(m - largest);
  const T inverse = T{1} / (ours + theirs);
  const auto a = heads.in_out(out, own.head);
  const auto b = heads.in_out(partial_out, own.head);
  for (size_t d = lane_index(); d < heads.size; d += kWarpSize) {
    T& sum = a.first[t * a.stride + d];
    sum = (ours * sum + theirs * b.first[t * b.stride + d]) * inverse;
  }
  __syncwarp();  // all lanes have read the logsumexp
  if (lane_index() == 0) logsumexp[row] = largest + std::log(ours + theirs);
}

// A warp computes one element of row_dot (B, NH, T).
template <class T, class A = Accumulate<T>>
__global__ void row_dot_kernel(A* row_dot, const T* dout, const T* out, Heads heads,
                               size_t all_heads) {
  const OwnQuery own(heads.tokens);
  if (own.head >= all_heads) return;
  const size_t t = own.query;
  const auto a = heads.in_out(dout, own.head), b = heads.in_out(out, own.head);
  A total = 0;
  for (size_t d = lane_index(); d < heads.size; d += kWarpSize) {
    total = std::fma(A{a.first[t * a.stride + d]}, A{b.first[t * b.stride + d]}, total);
  }
  total = warp_sum(total);
  if (lane_index() == 0) row_dot[own.head * heads.tokens + t] = total;
}

// The same for heads of whole packs in 16 bits: kLanes lanes have a pack each of an element's
// vectors. Groups of lanes lie side by side as the vectors do in memory, so a warp reads rows of
// 512 bytes.
template <unsigned kLanes, class T>
__global__ void row_dot_in_packs_kernel(float* row_dot, const T* dout, const T* out, Heads heads,
                                        size_t vectors) {
  constexpr unsigned N = kPack<T>;
  const size_t vector = thread_index() / kLanes, d = threadIdx.x % kLanes * N;
  float total = 0;
  if (vector < vectors && d < heads.size) {
    const auto a = load<N>(dout + vector * heads.size + d),
               b = load<N>(out + vector * heads.size + d);
    for (unsigned k = 0; k < N; ++k) total = std::fma(a.element[k], b.element[k], total);
  }
  total = warp_reduce<kLanes>(total, Sum());
  if (vector >= vectors || d > 0) return;
  const size_t token = vector / heads.num_heads, h = vector % heads.num_heads;
  const size_t head = token / heads.tokens * heads.num_heads + h;
  row_dot[head * heads.tokens + token % heads.tokens] = total;
}

}  // namespace

void attention_merge(Stream& stream, TensorView out, TensorView logsumexp,
                     ConstTensorView partial_out, ConstTensorView partial_logsumexp, size_t first,
                     size_t count) {
  const size_t num_heads = logsumexp.shape()[1], all_heads = out.shape()[0] * num_heads;
  const Heads heads = {out.shape()[1], num_heads, out.shape()[2] / num_heads};
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = Accumulate<decltype(zero)>;
    launch<merge_kernel<T>>(stream.native(), threads_for(all_heads * count * kWarpSize),
                            out.as<T>(), logsumexp.as<T>(), partial_out.as<T>(),
                            partial_logsumexp.as<T>(), heads, all_heads, first, count);
  });
}

void attention_row_dot(Stream& stream, TensorView row_dot, ConstTensorView dout,
                       ConstTensorView out) {
  const size_t num_heads = row_dot.shape()[1], all_heads = out.shape()[0] * num_heads;
  const Heads heads = {out.shape()[1], num_heads, out.shape()[2] / num_heads};
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2) {
      if (suits_tensor_cores(heads.size, dout.as<T>(), out.as<T>())) {
        const size_t vectors = all_heads * heads.tokens;
        return dispatch_mma_width(heads.size, [&](auto width) {
          constexpr unsigned kLanes = width / kPack<T>;
          launch<row_dot_in_packs_kernel<kLanes, T>>(stream.native(), threads_for(vectors * kLanes),
                                                     row_dot.as<float>(), dout.as<T>(), out.as<T>(),
                                                     heads, vectors);
        });
      }
    }
    launch<row_dot_kernel<T>>(stream.native(), threads_for(all_heads * heads.tokens * kWarpSize),
                              row_dot.as<Accumulate<T>>(), dout.as<T>(), out.as<T>(), heads,
                              all_heads);
  });
}

}  // namespace ladder::cuda
