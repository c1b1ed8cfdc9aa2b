#include "kernels/attention_merge.h"
#include "kernels/cuda/attention_launch.h"
#include "kernels/cuda/attention_mma.h"

namespace ladder::cuda {
namespace {

// Turns the thread's scores into probabilities, and dp = dout v^T into the gradients of the scores.
// The owned tile begins at token own0, the other at other0; statistics are those of the query head.
template <class Tiling, bool kOwnsKeys, class A = typename Tiling::A>
__device__ void score_gradients(typename Tiling::Scores& p, typename Tiling::Scores& ds,
                                const A* row_dot, const A* logsumexp, size_t own0, size_t other0,
                                const HeadTile& heads, A scale) {
  constexpr unsigned kRows = Tiling::kRows;
  A shift[kRows], dot[kRows];  // those of the thread's queries
  for (unsigned n = 0; n < kRows; ++n) {
    const size_t query = kOwnsKeys ? other0 + Tiling::score_column(n) : own0 + Tiling::row(n);
    const bool exists = query < heads.queries;
    shift[n] = exists ? logsumexp[query] : A{0};
    dot[n] = exists ? row_dot[query] : A{0};
  }
  for (unsigned i = 0; i < kRows; ++i) {
    for (unsigned j = 0; j < kRows; ++j) {
      const size_t own = own0 + Tiling::row(i), other = other0 + Tiling::score_column(j);
      const size_t query = kOwnsKeys ? other : own, key = kOwnsKeys ? own : other;
      const unsigned n = kOwnsKeys ? j : i;
      const bool visible = heads.sees(query, key) && query < heads.queries;
      p[i][j] = visible ? std::exp(scale * p[i][j] - shift[n]) : A{0};
      ds[i][j] = p[i][j] * (ds[i][j] - dot[n]) * scale;
    }
  }
}

// Computes the gradients of the tokens of the owned tile: of keys dk and dv, which are sums over
// all later queries of the heads of a group, or of queries dq, a sum over all earlier keys. One
// thread block writes each gradient, so the order of its sum is fixed. The scores and their
// gradients come from two products of owned rows with other rows, so that both cases are the same
// computation:
//              own 1, 2   other 1, 2    sums1                 sums2
//   keys        k, v        q, dout     dk += ds^T q          dv += p^T dout
//   queries     q, dout     k, v        dq += ds k
// d1 is dk or dq, d2 dv or nothing. With kAdds they are added to.
template <class T, class Tiling, bool kOwnsKeys, bool kAdds, class Out,
          class A = typename Tiling::A>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    backward_kernel(Out* d1, Out* d2, size_t dq_stride, const A* row_dot, const T* dout,
                    const A* logsumexp, const T* q_of_all, const T* k_of_all, const T* v_of_all,
                    HeadTile heads, A scale) {
  constexpr unsigned kTile = Tiling::kTile;
  A* const own1 = dynamic_shared<A>();
  A *const own2 = own1 + Tiling::kElements, *const other1 = own2 + Tiling::kElements;
  A *const other2 = other1 + Tiling::kElements, *const weights = other2 + Tiling::kElements;
  const unsigned head = heads.head(), key_head = kOwnsKeys ? head : head / heads.group;
  const auto k = heads.of_keys(k_of_all, key_head), v = heads.of_keys(v_of_all, key_head);
  const size_t num_own = kOwnsKeys ? heads.keys : heads.queries;
  const size_t num_other = kOwnsKeys ? heads.queries : heads.keys;
  // The tiles that a causal mask leaves most work start first: the first keys, the last queries.
  const size_t own0 = (kOwnsKeys ? heads.tile() : heads.tile_from_end()) * kTile;
  const size_t begin = kOwnsKeys && heads.causal ? own0 : 0;
  const size_t end = !kOwnsKeys && heads.causal ? own0 + 1 : num_other;
  typename Tiling::Sums sums1 = {}, sums2 = {};
  for (unsigned n = 0; n < (kOwnsKeys ? heads.group : 1); ++n) {
    const unsigned query_head = kOwnsKeys ? head * heads.group + n : head;
    const auto q = heads.of_queries(q_of_all, heads.q_stride, query_head);
    const auto d = heads.of_queries(dout, heads.hidden(), query_head);
    const size_t statistics = query_head * heads.query_tokens;
    for (size_t other0 = begin; other0 < end; other0 += kTile) {
      typename Tiling::Scores p = {}, ds = {};
      // This thread block's own slice of the head comes last, since the sums need it.
      for (unsigned slice = 1; slice <= gridDim.y; ++slice) {
        const size_t d0 = (blockIdx.y + slice) % gridDim.y * size_t{Tiling::kWidth};
        __syncthreads();  // the tiles have been read
        if (other0 == begin || gridDim.y > 1) {
          load_tile<Tiling>(own1, kOwnsKeys ? k : q, num_own, own0, d0, heads);
          load_tile<Tiling>(own2, kOwnsKeys ? v : d, num_own, own0, d0, heads);
        }
        load_tile<Tiling>(other1, kOwnsKeys ? q : k, num_other, other0, d0, heads);
        load_tile<Tiling>(other2, kOwnsKeys ? d : v, num_other, other0, d0, heads);
        __syncthreads();
        add_scores<Tiling>(p, own1, other1);
        add_scores<Tiling>(ds, own2, other2);
      }
      score_gradients<Tiling, kOwnsKeys>(p, ds, row_dot + statistics, logsumexp + statistics, own0,
                                         other0, heads, scale);
      if constexpr (kOwnsKeys) {
        store_scores<Tiling>(weights, p);
        add_weighted<Tiling>(sums2, weights, other2);
      }
      store_scores<Tiling>(weights, ds);
      add_weighted<Tiling>(sums1, weights, other1);
    }
  }
  const size_t d0 = blockIdx.y * size_t{Tiling::kWidth};
  if constexpr (kOwnsKeys) {
    store_sums<Tiling, kAdds>(heads.of_keys(d1, key_head), num_own, own0, d0, heads, sums1);
    store_sums<Tiling, kAdds>(heads.of_keys(d2, key_head), num_own, own0, d0, heads, sums2);
  } else {
    store_sums<Tiling, kAdds>(heads.of_queries(d1, dq_stride, head), num_own, own0, d0, heads,
                              sums1);
  }
}

// What both entries give the kernels. Pointers point to the vectors of the first query and key of
// head 0 of sequence 0.
template <class T>
struct Inputs {
  using A = Accumulate<T>;
  const A *row_dot, *logsumexp;
  const T *dout, *q, *k, *v;
};

template <bool kAdds, class T, class Out>
void launch_backward(Stream& stream, const HeadTile& heads, Out* dq, size_t dq_stride, Out* dk,
                     Out* dv, const Inputs<T>& in) {
  using A = Accumulate<T>;
  const A scale = scale_of<A>(heads.size);
  HeadTile key_heads = heads;
  key_heads.all_heads /= heads.group;
  dispatch_tiling<A>(heads.size, [&](auto tiling) {
    using Tiling = decltype(tiling);
    launch<backward_kernel<T, Tiling, true, kAdds, Out>>(
        stream.native(), shape_of<Tiling>(key_heads, heads.keys, 4), dk, dv, dq_stride, in.row_dot,
        in.dout, in.logsumexp, in.q, in.k, in.v, key_heads, scale);
    launch<backward_kernel<T, Tiling, false, kAdds, Out>>(
        stream.native(), shape_of<Tiling>(heads, heads.queries, 4), dq, static_cast<Out*>(nullptr),
        dq_stride, in.row_dot, in.dout, in.logsumexp, in.q, in.k, in.v, heads, scale);
  });
}

}  // namespace

void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv,
                        AttentionMask mask) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], columns = out.shape()[2];
  const AttentionHeads heads = attention_heads(logsumexp, columns, qkv.shape()[2] - columns);
  cuda::attention_row_dot(stream, row_dot, dout, out);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = dqkv.as<T>();
    const A *const dot = row_dot.as<A>(), *const l = logsumexp.as<A>();
    const T *const x = qkv.as<T>(), *const d = dout.as<T>();
    if constexpr (sizeof(T) == 2) {
      if (suits_tensor_cores(heads.size, dx, d, x)) {
        return backward_on_tensor_cores(stream.native(), dx, dot, d, l, x, batch,
                                        heads_in_qkv(tokens, heads), mask);
      }
    }
    const size_t k = columns, v = k + heads.key_columns();  // where they are in a token's columns
    launch_backward<false>(stream, heads_of_qkv<A>(batch, tokens, heads, mask, x, d), dx,
                           heads.qkv_columns(), dx + k, dx + v,
                           Inputs<T>{dot, l, d, x, x + k, x + v});
  });
}

void attention_of_tile_backward(Stream& stream, TensorView dq, TensorView dkv,
                                ConstTensorView row_dot, ConstTensorView dout,
                                ConstTensorView logsumexp, ConstTensorView qkv, ConstTensorView kv,
                                ScoreTile block) {
  const size_t columns = dq.shape()[2], first = block.first_query;
  const AttentionHeads heads = attention_heads(logsumexp, columns, kv.shape()[2]);
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    A* const dk = dkv.as<A>();
    const T *const q = qkv.as<T>() + first * heads.qkv_columns(), *const k = kv.as<T>();
    const T* const d = dout.as<T>() + first * columns;
    const size_t v = heads.key_columns();  // where values are in a token's columns
    const HeadTile tile =
        heads_of_block<A>(block, dq.shape()[0], dq.shape()[1], kv.shape()[1], heads, q, k, d);
    launch_backward<true>(
        stream, tile, dq.as<A>() + first * columns, columns, dk, dk + v,
        Inputs<T>{row_dot.as<A>() + first, logsumexp.as<A>() + first, d, q, k, k + v});
  });
}

}  // namespace ladder::cuda
