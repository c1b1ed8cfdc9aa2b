#include "kernels/embedding.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/map.h"
#include "kernels/vocabulary.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kThreads = 256;    // of a thread block of backward
constexpr unsigned kMaxOwners = 128;  // the most thread blocks that divide the vocabulary
constexpr unsigned kTokens = 4;       // that a thread looks at in a round; then rows are added
// Rows of dout that are fetched before the first is added: as many as registers allow.
template <class T>
constexpr unsigned kAhead = sizeof(T) > 4 ? 8 : 16;

// The rows of a table are tokens [first, first + size) of the vocabulary.
struct Slice {
  size_t first, size;
  // Returns the row of a token, or `size` if the table does not have it.
  __device__ size_t row(int32_t token) const { return index_in_slice(token, first, size); }
};

template <unsigned N, class T>
__global__ void embedding_forward_kernel(T* out, const int32_t* tokens, const T* table, Slice slice,
                                         size_t n, size_t columns) {
  const size_t at = thread_index() * N;
  if (at >= n) return;
  const size_t row = slice.row(tokens[at / columns]);
  Pack<Accumulate<T>, N> x{};
  if (row < slice.size) x = load<N>(table + row * columns + at % columns);
  store(out + at, x);
}

// A row of dout that is added to row `to` of the table. `from` is its token's index among those
// that the thread block looks at in this round.
struct Addition {
  unsigned from, to;
};

// Lists the additions to rows of the table that this thread block owns: those of the next kTokens *
// kThreads tokens, in order. Thread block y of Y owns row r of the table if r % Y is y. Returns the
// number of additions. REQUIRES: all threads of the thread block take part, and share `list`.
__device__ unsigned list_additions(const int32_t* tokens, size_t num_tokens, const Slice& slice,
                                   Addition* list) {
  __shared__ unsigned of_warp[kThreads / kWarpSize];
  const unsigned begin = warp_index() * kTokens * kWarpSize + lane_index();
  unsigned to[kTokens], votes[kTokens], own = 0;
  for (unsigned n = 0; n < kTokens; ++n) {
    const unsigned from = begin + n * kWarpSize;
    const size_t row = from < num_tokens ? slice.row(tokens[from]) : slice.size;
    to[n] = static_cast<unsigned>(row);
    votes[n] = __ballot_sync(0xFFFFFFFF, row < slice.size && to[n] % gridDim.y == blockIdx.y);
    own += std::popcount(votes[n]);
  }
  if (lane_index() == 0) of_warp[warp_index()] = own;
  __syncthreads();
  unsigned before = 0, count = 0;
  for (unsigned warp = 0; warp < kThreads / kWarpSize; ++warp) {
    if (warp == warp_index()) before = count;
    count += of_warp[warp];
  }
  const unsigned lower_lanes = (1u << lane_index()) - 1;
  for (unsigned n = 0; n < kTokens; ++n) {
    const bool mine = votes[n] >> lane_index() & 1;
    if (mine) list[before + std::popcount(votes[n] & lower_lanes)] = {begin + n * kWarpSize, to[n]};
    before += std::popcount(votes[n]);
  }
  __syncthreads();
  return count;
}

// Adds rows of dout to one column of the table, one after the other. While consecutive ones go to
// the same row of the table, its element stays in a register.
template <class T, class A = Accumulate<T>>
struct Column {
  const T* from;  // the thread's column of dout
  A* table;       // and of the table
  unsigned columns;
  unsigned none;  // no row has this number
  unsigned row = none;
  A sum{};

  // Adds the first rows of the list: kAhead<T> of them, or `count` if that is fewer; kAll says that
  // it is not. All are fetched before the first is added. Rows of a frequent token find its element
  // in the register.
  template <bool kAll>
  __device__ void add(const Addition* list, unsigned count) {
    T value[kAhead<T>] = {};
    bool stays = kAll;
    for (unsigned k = 0; k < kAhead<T>; ++k) {
      if (!kAll && k >= count) continue;
      const Addition one = list[k];
      value[k] = from[one.from * columns];
      stays = stays && one.to == row;
    }
    for (unsigned k = 0; k < kAhead<T>; ++k) {
      if (!kAll && k >= count) continue;
      if (!stays) take(list[k].to);
      sum += value[k];
    }
  }
  __device__ void take(unsigned to) {
    if (to == row) return;
    flush();
    row = to;
    sum = table[size_t{to} * columns];
  }
  __device__ void flush() {
    if (row != none) table[size_t{row} * columns] = sum;
  }
};

// It is fixed which thread adds to which element, so there are no atomics. A thread block owns rows
// of the table, and each of its threads a column. The thread block goes through all tokens in
// order, and lists those it owns. Then each thread adds these rows of dout to its column, so every
// element receives its rows in the order of (b, t). Every thread block looks at all R tokens: for
// 256 columns there are at most kMaxOwners thread blocks, however large the vocabulary is.
//
// The most frequent token makes the longest work: its rows are added one after the other by few
// thread blocks, and each must be fetched from memory. So many of them are on the way at once.
template <class T, class A = Accumulate<T>>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(A* dtable, const int32_t* tokens, const T* dout, Slice slice,
                              size_t rows, size_t columns) {
  __shared__ Addition list[kTokens * kThreads];
  const size_t column = thread_index();
  const bool has_column = column < columns;
  Column<T> sums{dout + column, dtable + column, static_cast<unsigned>(columns),
                 static_cast<unsigned>(slice.size)};
  for (size_t first = 0; first < rows; first += kTokens * kThreads) {
    const unsigned count = list_additions(tokens + first, rows - first, slice, list);
    sums.from = dout + first * columns + column;
    for (unsigned i = 0; has_column && i < count; i += kAhead<T>) {
      if (i + kAhead<T> <= count) {
        sums.template add<true>(list + i, count - i);
      } else {
        sums.template add<false>(list + i, count - i);
      }
    }
  }
  if (has_column) sums.flush();
}

// Returns the element of the table that belongs to element i of a sequence of rows of so many
// columns.
__device__ size_t table_element(size_t i, const int32_t* positions, size_t columns) {
  return positions == nullptr ? i
                              : static_cast<size_t>(positions[i / columns]) * columns + i % columns;
}

template <class T>
__global__ void position_forward_kernel(T* out, const T* in, const T* table,
                                        const int32_t* positions, size_t n, size_t sequence,
                                        size_t columns) {
  using A = Accumulate<T>;
  const size_t i = thread_index();
  if (i >= n) return;
  const size_t element = table_element(i % sequence, positions, columns);
  out[i] = static_cast<T>(A{table[element]} + A{in[i]});
}

// Each thread has one element and adds its B gradients in order. Neighbouring threads read
// neighbouring elements. There are n elements in a sequence.
template <class T, class A = Accumulate<T>>
__global__ void position_backward_kernel(A* dtable, const T* dout, const int32_t* positions,
                                         size_t batch, size_t n, size_t columns) {
  const size_t i = thread_index();
  if (i >= n) return;
  A& element = dtable[table_element(i, positions, columns)];
  A sum = element;
#pragma unroll 4
  for (size_t b = 0; b < batch; ++b) sum += dout[b * n + i];
  element = sum;
}

const int32_t* elements_or_null(const ConstTensorView& positions) {
  return positions.empty() ? nullptr : positions.as<int32_t>();
}

}  // namespace

void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                       ConstTensorView table, size_t first) {
  const size_t n = out.num_elements(), columns = out.shape()[2];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const w = table.as<T>();
    const int32_t* const token = tokens.as<int32_t>();
    dispatch_pack<T>(in_packs(columns, o, w), [&](auto pack) {
      launch<embedding_forward_kernel<pack, T>>(stream.native(), threads_for(n / pack), o, token, w,
                                                Slice{first, table.shape()[0]}, n, columns);
    });
  });
}

void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                        ConstTensorView dout, size_t first) {
  const size_t columns = dtable.shape()[1];
  const unsigned owners = static_cast<unsigned>(std::min<size_t>(dtable.shape()[0], kMaxOwners));
  const dim3 grid(threads_for(columns, kThreads).grid.x, owners);
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    launch<embedding_backward_kernel<T>>(
        stream.native(), {grid, dim3(kThreads)}, dtable.as<Accumulate<T>>(), tokens.as<int32_t>(),
        dout.as<T>(), Slice{first, dtable.shape()[0]}, tokens.num_elements(), columns);
  });
}

void position_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView table,
                      ConstTensorView positions) {
  const size_t n = out.num_elements(), columns = out.shape()[2];
  const size_t sequence = out.shape()[1] * columns;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T *const x = in.as<T>(), *const w = table.as<T>();
    if (positions.empty()) return map_rows(stream, Sum(), n, sequence, o, w, x);
    launch<position_forward_kernel<T>>(stream.native(), threads_for(n), o, x, w,
                                       positions.as<int32_t>(), n, sequence, columns);
  });
}

void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout,
                       ConstTensorView positions) {
  const size_t columns = dout.shape()[2], sequence = dout.shape()[1] * columns;
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    launch<position_backward_kernel<T>>(
        stream.native(), threads_for(sequence), dtable.as<Accumulate<T>>(), dout.as<T>(),
        elements_or_null(positions), dout.shape()[0], sequence, columns);
  });
}

}  // namespace ladder::cuda
