#include "kernels/attention.h"

#include <limits>

#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

// The thread blocks that run at the same time on a multiprocessor, if the tiles fit its shared
// memory: one loads while the other computes. It also means that a thread may use 128 registers,
// which is enough for its sums.
constexpr unsigned kBlocksOfSm = 2;

// Stores the sums as elements d0, ... of the owned tokens' vectors.
template <class Tiling, class T>
__device__ void store_sums(const Vectors<T>& to, size_t t0, size_t d0, const Heads& heads,
                           const typename Tiling::Sums& sums) {
  for (unsigned i = 0; i < Tiling::kRows; ++i) {
    const size_t t = t0 + Tiling::row(i);
    for (unsigned c = 0; c < Tiling::kColumns; ++c) {
      const size_t d = d0 + Tiling::column(c);
      if (t < heads.tokens && d < heads.size) {
        to.first[t * to.stride + d] = static_cast<T>(sums[i][c]);
      }
    }
  }
}

template <class T, class Tiling, class A = typename Tiling::A>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    forward_kernel(T* out, A* logsumexp, const T* qkv, Heads heads, A scale) {
  constexpr unsigned kTile = Tiling::kTile, kRows = Tiling::kRows;
  A* const q = dynamic_shared<A>();
  A *const k = q + Tiling::kElements, *const v = k + Tiling::kElements;
  A* const weights = v + Tiling::kElements;
  // The last tiles see the most keys, so they start first.
  const size_t q0 = (gridDim.y - 1 - blockIdx.y) * size_t{kTile};
  const auto queries = heads.in_qkv(qkv, 0), keys = heads.in_qkv(qkv, 1);
  const auto values = heads.in_qkv(qkv, 2);
  typename Tiling::Sums sums = {};
  A maximum[kRows], total[kRows] = {};  // the totals are over the thread's columns only
  for (A& m : maximum) m = std::numeric_limits<A>::lowest();
  for (size_t k0 = 0; k0 <= q0; k0 += kTile) {
    typename Tiling::Scores scores = {};
    for (unsigned part = 1; part <= gridDim.z; ++part) {  // the own part is last, since v needs it
      const size_t d0 = (blockIdx.z + part) % gridDim.z * size_t{Tiling::kWidth};
      __syncthreads();  // the tiles have been read
      if (k0 == 0 || gridDim.z > 1) load_tile<Tiling>(q, queries, q0, d0, heads);
      load_tile<Tiling>(k, keys, k0, d0, heads);
      if (part == gridDim.z) load_tile<Tiling>(v, values, k0, d0, heads);
      __syncthreads();
      add_scores<Tiling>(scores, q, k);
    }
    for (unsigned i = 0; i < kRows; ++i) {
      const size_t query = q0 + Tiling::row(i);
      A largest = maximum[i];
      for (unsigned j = 0; j < kRows; ++j) {
        scores[i][j] *= scale;
        if (k0 + Tiling::score_column(j) <= query) largest = std::fmax(largest, scores[i][j]);
      }
      largest = warp_reduce<kSide>(largest, Maximum());
      const A correction = std::exp(maximum[i] - largest);
      maximum[i] = largest;
      total[i] *= correction;
      for (unsigned j = 0; j < kRows; ++j) {
        const bool visible = k0 + Tiling::score_column(j) <= query;
        scores[i][j] = visible ? std::exp(scores[i][j] - largest) : A{0};
        total[i] += scores[i][j];
      }
      for (A& sum : sums[i]) sum *= correction;
    }
    store_scores<Tiling>(weights, scores);
    add_weighted<Tiling>(sums, weights, v);
  }
  for (unsigned i = 0; i < kRows; ++i) {
    total[i] = warp_reduce<kSide>(total[i], Sum());
    const A inverse = A{1} / total[i];
    for (A& sum : sums[i]) sum *= inverse;
    const size_t query = q0 + Tiling::row(i);
    if (query < heads.tokens && threadIdx.x % kSide == 0 && blockIdx.z == 0) {
      logsumexp[blockIdx.x * heads.tokens + query] = maximum[i] + std::log(total[i]);
    }
  }
  store_sums<Tiling>(heads.in_out(out), q0, blockIdx.z * size_t{Tiling::kWidth}, heads, sums);
}

// row_dot (B, NH, T) = sum over the head of dout * out. A warp computes one element.
template <class T, class A = Accumulate<T>>
__global__ void row_dot_kernel(A* row_dot, const T* dout, const T* out, Heads heads) {
  const size_t t = size_t{blockIdx.y} * num_warps() + warp_index();
  if (t >= heads.tokens) return;
  const auto a = heads.in_out(dout), b = heads.in_out(out);
  A total = 0;
  for (size_t d = lane_index(); d < heads.size; d += kWarpSize) {
    total = std::fma(A{a.first[t * a.stride + d]}, A{b.first[t * b.stride + d]}, total);
  }
  total = warp_sum(total);
  if (lane_index() == 0) row_dot[blockIdx.x * heads.tokens + t] = total;
}

// Computes the gradients of the tokens of the owned tile: of keys dk and dv, which are sums over
// all later queries, or of queries dq, which is a sum over all earlier keys. One thread block
// writes each gradient, so the order of its sum is fixed. The scores and their gradients come from
// two products of owned rows with other rows, so that both cases are the same computation:
//              own 1, 2   other 1, 2    sums1                 sums2
//   keys        k, v        q, dout     dk += ds^T q          dv += p^T dout
//   queries     q, dout     k, v        dq += ds k
template <class T, class Tiling, bool kOwnsKeys, class A = typename Tiling::A>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    backward_kernel(T* dqkv, const A* row_dot, const T* dout, const A* logsumexp, const T* qkv,
                    Heads heads, A scale) {
  constexpr unsigned kTile = Tiling::kTile, kRows = Tiling::kRows;
  A* const own1 = dynamic_shared<A>();
  A *const own2 = own1 + Tiling::kElements, *const other1 = own2 + Tiling::kElements;
  A *const other2 = other1 + Tiling::kElements, *const weights = other2 + Tiling::kElements;
  const auto q = heads.in_qkv(qkv, 0), k = heads.in_qkv(qkv, 1), v = heads.in_qkv(qkv, 2);
  const auto d = heads.in_out(dout);
  // The tiles with the most work start first: the first keys, the last queries.
  const size_t own0 = (kOwnsKeys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * size_t{kTile};
  const size_t begin = kOwnsKeys ? own0 : 0, end = kOwnsKeys ? heads.tokens : own0 + 1;
  typename Tiling::Sums sums1 = {}, sums2 = {};
  for (size_t other0 = begin; other0 < end; other0 += kTile) {
    typename Tiling::Scores p = {}, ds = {};
    // The own part comes last, since the sums need it.
    for (unsigned part = 1; part <= gridDim.z; ++part) {
      const size_t d0 = (blockIdx.z + part) % gridDim.z * size_t{Tiling::kWidth};
      __syncthreads();  // the tiles have been read
      if (other0 == begin || gridDim.z > 1) {
        load_tile<Tiling>(own1, kOwnsKeys ? k : q, own0, d0, heads);
        load_tile<Tiling>(own2, kOwnsKeys ? v : d, own0, d0, heads);
      }
      load_tile<Tiling>(other1, kOwnsKeys ? q : k, other0, d0, heads);
      load_tile<Tiling>(other2, kOwnsKeys ? d : v, other0, d0, heads);
      __syncthreads();
      add_scores<Tiling>(p, own1, other1);
      add_scores<Tiling>(ds, own2, other2);
    }
    A shift[kRows], dot[kRows];  // those of the thread's queries
    for (unsigned n = 0; n < kRows; ++n) {
      const size_t query = kOwnsKeys ? other0 + Tiling::score_column(n) : own0 + Tiling::row(n);
      const bool exists = query < heads.tokens;
      shift[n] = exists ? logsumexp[blockIdx.x * heads.tokens + query] : A{0};
      dot[n] = exists ? row_dot[blockIdx.x * heads.tokens + query] : A{0};
    }
    for (unsigned i = 0; i < kRows; ++i) {
      for (unsigned j = 0; j < kRows; ++j) {
        const size_t own = own0 + Tiling::row(i), other = other0 + Tiling::score_column(j);
        const size_t query = kOwnsKeys ? other : own, key = kOwnsKeys ? own : other;
        const unsigned n = kOwnsKeys ? j : i;
        const bool visible = key <= query && query < heads.tokens;
        p[i][j] = visible ? std::exp(scale * p[i][j] - shift[n]) : A{0};
        ds[i][j] = p[i][j] * (ds[i][j] - dot[n]) * scale;
      }
    }
    if constexpr (kOwnsKeys) {
      store_scores<Tiling>(weights, p);
      add_weighted<Tiling>(sums2, weights, other2);
    }
    store_scores<Tiling>(weights, ds);
    add_weighted<Tiling>(sums1, weights, other1);
  }
  const size_t d0 = blockIdx.z * size_t{Tiling::kWidth};
  store_sums<Tiling>(heads.in_qkv(dqkv, kOwnsKeys ? 1 : 0), own0, d0, heads, sums1);
  if constexpr (kOwnsKeys) store_sums<Tiling>(heads.in_qkv(dqkv, 2), own0, d0, heads, sums2);
}

// Returns the launch shape. A thread block has `num_tiles` tiles of vectors in shared memory, and
// one of scores.
template <class Tiling>
LaunchShape shape_of(const Heads& heads, size_t batch, size_t num_tiles) {
  const auto blocks = [](size_t n, size_t each) {
    return static_cast<unsigned>((n + each - 1) / each);
  };
  return {dim3(blocks(batch * heads.num_heads, 1), blocks(heads.tokens, Tiling::kTile),
               blocks(heads.size, Tiling::kWidth)),
          dim3(kThreads),
          (num_tiles * Tiling::kElements + Tiling::kScoreElements) * sizeof(typename Tiling::A)};
}

// Calls function(tiling) with the narrowest tiling that holds a whole head, or with the widest one.
template <class A, class Function>
void dispatch_tiling(size_t head_size, Function&& function) {
  if (head_size <= 32) return function(Tiling<A, 32>());
  if (head_size <= 64) return function(Tiling<A, 64>());
  function(Tiling<A, 128>());
}

// Returns the description of the heads whose vectors are at these addresses and go into tiles of A.
template <class A, class... T>
Heads heads_of(size_t tokens, size_t num_heads, size_t size, const T*... at) {
  return {tokens, num_heads, size, size % kPack<A> == 0 && packs_are_aligned<kPack<A>>(at...)};
}

}  // namespace

void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv) {
  const size_t num_heads = logsumexp.shape()[1], size = out.shape()[2] / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* const x = qkv.as<T>();
    const Heads heads = heads_of<A>(out.shape()[1], num_heads, size, x);
    if constexpr (sizeof(T) == 2) {
      if (suits_tensor_cores(size, out.as<T>(), x)) {
        return forward_on_tensor_cores(stream.native(), out.as<T>(), logsumexp.as<A>(), x,
                                       out.shape()[0], heads);
      }
    }
    dispatch_tiling<A>(size, [&](auto tiling) {
      using Tiling = decltype(tiling);
      launch<forward_kernel<T, Tiling>>(stream.native(), shape_of<Tiling>(heads, out.shape()[0], 3),
                                        out.as<T>(), logsumexp.as<A>(), x, heads,
                                        scale_of<A>(heads));
    });
  });
}

void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv) {
  constexpr unsigned kRowsOfBlock = 8;
  const size_t num_heads = logsumexp.shape()[1], size = out.shape()[2] / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = dqkv.as<T>();
    A* const dot = row_dot.as<A>();
    const T *const x = qkv.as<T>(), *const d = dout.as<T>();
    const A* const l = logsumexp.as<A>();
    const Heads heads = heads_of<A>(out.shape()[1], num_heads, size, x, d);
    const size_t batch = out.shape()[0];
    const dim3 rows(static_cast<unsigned>(batch * num_heads),
                    static_cast<unsigned>((heads.tokens + kRowsOfBlock - 1) / kRowsOfBlock));
    launch<row_dot_kernel<T>>(stream.native(), {rows, dim3(kRowsOfBlock * kWarpSize)}, dot, d,
                              out.as<T>(), heads);
    if constexpr (sizeof(T) == 2) {
      if (suits_tensor_cores(size, dx, d, x)) {
        return backward_on_tensor_cores(stream.native(), dx, dot, d, l, x, batch, heads);
      }
    }
    dispatch_tiling<A>(size, [&](auto tiling) {
      using Tiling = decltype(tiling);
      const LaunchShape shape = shape_of<Tiling>(heads, batch, 4);
      const A scale = scale_of<A>(heads);
      launch<backward_kernel<T, Tiling, true>>(stream.native(), shape, dx, dot, d, l, x, heads,
                                               scale);
      launch<backward_kernel<T, Tiling, false>>(stream.native(), shape, dx, dot, d, l, x, heads,
                                                scale);
    });
  });
}

}  // namespace ladder::cuda
