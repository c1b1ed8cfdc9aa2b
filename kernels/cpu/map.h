// One function of the inputs' elements for every element of an output. Where there is low precision
// it is called with vectors of fp32, widened as they are loaded and rounded as they are stored;
// else with elements, in a loop that the compiler vectorizes. So it must take both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "kernels/cpu/lanes.h"
#include "kernels/runtime/dtype.h"

namespace ladder::cpu {

// Elements in a block. Blocks begin at multiples of it, whatever the threads (math.h says why).
inline constexpr size_t kChunk = 1024;

template <class T>
inline constexpr bool is_low_precision = !std::is_same_v<T, Accumulate<T>>;

// to[i] = from[i], rounded once at most. (A `from` of one's own is passed without const: g++ 12
// takes const for a promise to read, and would warn of what only a loop has written.)
template <class To, class From>
void convert(To* to, From* from, size_t n) {
  using L = Lanes<float>;
  size_t i = 0;
  if constexpr (sizeof(To) < sizeof(double) && sizeof(From) < sizeof(double)) {
    for (; i + L::kCount <= n; i += L::kCount) L::store(to + i, L::load(from + i));
  }
  for (; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

// n elements as what is computed with: those in memory themselves, or a widened copy.
// REQUIRES: n <= kChunk.
template <class T>
class Widened {
 public:
  using A = Accumulate<T>;

  Widened(const T* from, size_t n) {
    if constexpr (is_low_precision<T>) {
      convert(copy_, from, n);
      data_ = copy_;
    } else {
      data_ = from;
    }
  }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;

  operator const A*() const { return data_; }  // NOLINT: used as the elements

 private:
  const A* data_;
  A copy_[is_low_precision<T> ? kChunk : 1];
};

// One block.
template <class Function, class Out, class... In>
void map_chunk(const Function& f, size_t n, Out* out, const In*... in) {
  if constexpr (is_low_precision<Out> || (is_low_precision<In> || ...)) {
    using L = Lanes<float>;
    size_t i = 0;
    for (; i + L::kCount <= n; i += L::kCount) L::store(out + i, f(L::load(in + i)...));
    for (; i < n; ++i) out[i] = static_cast<Out>(f(static_cast<float>(in[i])...));
  } else {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) out[i] = f(in[i]...);
  }
}

// out[i] = f(in[i]...) for all i < n, computed in the accumulation types and rounded once. out may
// be one of the inputs. In the calling thread alone.
template <class Function, class Out, class... In>
void map_in_thread(const Function& f, size_t n, Out* out, const In*... in) {
  for (size_t first = 0; first < n; first += kChunk) {
    map_chunk(f, std::min(kChunk, n - first), out + first, in + first...);
  }
}

// The same in all threads.
template <class Function, class Out, class... In>
void map(const Function& f, size_t n, Out* out, const In*... in) {
#pragma omp parallel for schedule(static)
  for (size_t first = 0; first < n; first += kChunk) {
    map_chunk(f, std::min(kChunk, n - first), out + first, in + first...);
  }
}

// out[r, i] = f(row[r % period, i], in[r, i]...) for `rows` rows of n elements; out may be one of
// the `in`. In all threads.
template <class Function, class Out, class Row, class... In>
void map_rows(const Function& f, size_t rows, size_t n, size_t period, Out* out, const Row* row,
              const In*... in) {
#pragma omp parallel for schedule(static)
  for (size_t r = 0; r < rows; ++r) {
    map_in_thread(f, n, out + r * n, row + r % period * n, in + r * n...);
  }
}

}  // namespace ladder::cpu
