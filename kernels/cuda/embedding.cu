#include "kernels/embedding.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/map.h"
#include "kernels/vocabulary.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxOwners = 512;  // the most thread blocks that divide the vocabulary
constexpr unsigned kAhead = 8;        // rows of dout that are fetched before the first is added

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

// Lists the numbers of those threads of this thread block whose `want` is true, in order. Returns
// how many there are. REQUIRES: all threads of the thread block take part, and share `list`.
__device__ unsigned list_threads(bool want, unsigned* list) {
  __shared__ unsigned votes[kMaxWarps];
  const unsigned vote = __ballot_sync(0xFFFFFFFF, want);
  if (lane_index() == 0) votes[warp_index()] = vote;
  __syncthreads();
  unsigned before = 0, count = 0;
  for (unsigned warp = 0; warp < num_warps(); ++warp) {
    if (warp == warp_index()) before = count;
    count += std::popcount(votes[warp]);
  }
  const unsigned lower_lanes = (1u << lane_index()) - 1;
  if (want) list[before + std::popcount(vote & lower_lanes)] = threadIdx.x;
  __syncthreads();
  return count;
}

// Adds rows of dout to one column of the table, one after the other. While consecutive ones go to
// the same row of the table, its element stays in a register.
template <class A>
struct Column {
  A* table;  // the thread's column, whose rows are `stride` apart
  size_t stride;
  size_t none;  // no row has this number
  size_t row = none;
  A sum{};

  __device__ void add(size_t to, A value) {
    if (to != row) {
      flush();
      row = to;
      sum = table[to * stride];
    }
    sum += value;
  }
  __device__ void flush() {
    if (row != none) table[row * stride] = sum;
  }
};

// It is fixed which thread adds to which element, so there are no atomics. Thread block b owns the
// rows of the table whose number is b modulo the number of thread blocks, and thread i of it owns a
// column. The thread block goes through all tokens in order, one token a thread at a time, and
// lists those it owns. Then each thread adds these rows of dout to its column, so every element
// receives its rows in the order of (b, t). Going through R tokens costs at most 512 R comparisons
// and no memory, however large the vocabulary is. The most frequent token makes the longest work.
template <class T, class A = Accumulate<T>>
__global__ void embedding_backward_kernel(A* dtable, const int32_t* tokens, const T* dout,
                                          Slice slice, size_t rows, size_t columns) {
  __shared__ unsigned list[kMaxThreads];
  const size_t column = thread_index();
  const bool has_column = column < columns;
  Column<A> sums{dtable + column, columns, slice.size};
  for (size_t first = 0; first < rows; first += blockDim.x) {
    const size_t row = first + threadIdx.x;
    const size_t to = row < rows ? slice.row(tokens[row]) : slice.size;
    const bool mine = to < slice.size && static_cast<unsigned>(to) % gridDim.y == blockIdx.y;
    const unsigned count = list_threads(mine, list);
    for (unsigned i = 0; has_column && i < count; i += kAhead) {
      T value[kAhead];
      for (unsigned k = 0; k < kAhead; ++k) {
        if (i + k < count) value[k] = dout[(first + list[i + k]) * columns + column];
      }
      for (unsigned k = 0; k < kAhead; ++k) {
        if (i + k < count) sums.add(slice.row(tokens[first + list[i + k]]), value[k]);
      }
    }
  }
  if (has_column) sums.flush();
}

// Returns the element of the table that belongs to element i of a sequence of rows of so many
// columns.
__device__ size_t place_of(size_t i, const int32_t* positions, size_t columns) {
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
  const size_t place = place_of(i % sequence, positions, columns);
  out[i] = static_cast<T>(A{table[place]} + A{in[i]});
}

// Each thread has one element and adds its B gradients in order. Neighbouring threads read
// neighbouring elements. There are n elements in a sequence.
template <class T, class A = Accumulate<T>>
__global__ void position_backward_kernel(A* dtable, const T* dout, const int32_t* positions,
                                         size_t batch, size_t n, size_t columns) {
  const size_t i = thread_index();
  if (i >= n) return;
  A& element = dtable[place_of(i, positions, columns)];
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
  // There is a thread for every column, and if columns are few, enough threads to go through the
  // tokens.
  const size_t warps = std::clamp<size_t>((columns + kWarpSize - 1) / kWarpSize, 8, kMaxWarps);
  const unsigned threads = static_cast<unsigned>(warps) * kWarpSize;
  const unsigned owners = static_cast<unsigned>(std::min<size_t>(dtable.shape()[0], kMaxOwners));
  const dim3 grid(threads_for(columns, threads).grid.x, owners);
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    launch<embedding_backward_kernel<T>>(
        stream.native(), {grid, dim3(threads)}, dtable.as<Accumulate<T>>(), tokens.as<int32_t>(),
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
