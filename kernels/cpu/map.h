// Computes every element of an output as a function of the inputs' elements. If an argument is bf16
// or fp16, the function is called with vectors of fp32, which are converted when they are loaded
// and rounded when they are stored. Otherwise it is called with elements, in a loop that the
// compiler vectorizes. So the function must take both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/cpu/lanes.h"
#include "kernels/runtime/dtype.h"

namespace ladder::cpu {

// The elements in a tile. Tiles begin at multiples of it, whatever the number of threads (math.h
// says why).
inline constexpr size_t kTile = 1024;

template <class T>
inline constexpr bool is_low_precision = !std::is_same_v<T, Accumulate<T>>;

// to[i] = from[i], rounded at most once. (`from` is not const, because g++ 12 would warn that a
// local array which only a loop has written may be uninitialized.)
template <class To, class From>
void convert(To* to, From* from, size_t n) {
  using L = Lanes<float>;
  size_t i = 0;
  if constexpr (sizeof(To) < sizeof(double) && sizeof(From) < sizeof(double)) {
    for (; i + L::kCount <= n; i += L::kCount) L::store(to + i, L::load(from + i));
  }
  for (; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

// n elements in the accumulation dtype: the memory itself, or a converted copy for bf16 and fp16.
// REQUIRES: n <= kTile.
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
  A copy_[is_low_precision<T> ? kTile : 1];
};

// out[i] = f(in[i]...) for one tile of n elements.
template <class Function, class Out, class... In>
void map_tile(const Function& f, size_t n, Out* out, const In*... in) {
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

// out[i] = f(in[i]...) for all i < n, computed in the accumulation dtype and rounded once. out may
// be one of the inputs. It runs in the calling thread.
template <class Function, class Out, class... In>
void map_in_thread(const Function& f, size_t n, Out* out, const In*... in) {
  for (size_t first = 0; first < n; first += kTile) {
    map_tile(f, std::min(kTile, n - first), out + first, in + first...);
  }
}

// The same with two outputs: f returns a pair, whose elements are first[i] and second[i]. Either
// may be one of the inputs.
template <class Function, class Out, class... In>
void map_pairs_in_thread(const Function& f, size_t n, Out* first, Out* second, const In*... in) {
  const auto store = [&](size_t i, const auto& pair) {
    first[i] = static_cast<Out>(pair.first);
    second[i] = static_cast<Out>(pair.second);
  };
  size_t i = 0;
  if constexpr (is_low_precision<Out>) {
    using L = Lanes<float>;
    for (; i + L::kCount <= n; i += L::kCount) {
      const auto pair = f(L::load(in + i)...);
      L::store(first + i, pair.first);
      L::store(second + i, pair.second);
    }
    for (; i < n; ++i) store(i, f(static_cast<float>(in[i])...));
  } else {
#pragma omp simd
    for (size_t k = 0; k < n; ++k) store(k, f(in[k]...));
  }
}

// out[i] = f(in[i]...) for all i < n, as map_in_thread() computes it, in all threads.
template <class Function, class Out, class... In>
void map(const Function& f, size_t n, Out* out, const In*... in) {
#pragma omp parallel for schedule(static)
  for (size_t first = 0; first < n; first += kTile) {
    map_tile(f, std::min(kTile, n - first), out + first, in + first...);
  }
}

// out[r, i] = f(row[r % period, i], in[r, i]...) for `rows` rows of n elements. out may be one of
// the `in`. It runs in all threads.
template <class Function, class Out, class Row, class... In>
void map_rows(const Function& f, size_t rows, size_t n, size_t period, Out* out, const Row* row,
              const In*... in) {
#pragma omp parallel for schedule(static)
  for (size_t r = 0; r < rows; ++r) {
    map_in_thread(f, n, out + r * n, row + r % period * n, in + r * n...);
  }
}

}  // namespace ladder::cpu
