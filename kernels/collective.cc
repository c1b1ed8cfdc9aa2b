#include "kernels/collective.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/lanes.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Calls function(T{}) for every dtype.
template <class Function>
void dispatch(DType dtype, Function&& function) {
  if (dtype == DType::int32) return function(int32_t{});
  dispatch_float(dtype, function);
}

// Addition and maximum, for scalars and for vectors.
struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// Writes two vectors one after the other, or one scalar, rounded to T.
template <class T, class L = cpu::Lanes<Accumulate<T>>>
void store(T* to, const typename L::Vector& a, const typename L::Vector& b) {
  L::store(to, a);
  L::store(to + L::kCount, b);
}
template <class T>
void store(T* to, Accumulate<T> value) {
  *to = static_cast<T>(value);
}

// Reduces all buffers and calls write(i, results for elements i, i + 1, ...) for [0, n): with two
// vectors (a cache line of fp32), and at the end with single elements. It sums in registers, in
// rank order, so that as many streams as ranks run at the speed of one. More vectors are a third
// slower with eight ranks, because lines at the same offset of eight buffers compete for the ways
// of one cache set. For the same reason prefetches only go to the L2 cache.
template <class T, class View, class Combine, class Write>
void reduce_lines(std::span<const View> buffers, Combine combine, Write write) {
  using A = Accumulate<T>;
  using L = cpu::Lanes<A>;
  constexpr size_t kHalf = L::kCount, kAhead = 1024 / sizeof(T);
  std::vector<const T*> in;
  for (const View& buffer : buffers) in.push_back(static_cast<const T*>(buffer.data()));
  const size_t n = buffers[0].num_elements(), ranks = in.size();
  size_t i = 0;
  for (; i + 2 * kHalf <= n; i += 2 * kHalf) {
    auto a = L::load(in[0] + i), b = L::load(in[0] + i + kHalf);
    __builtin_prefetch(in[0] + i + kAhead, 0, 2);
    for (size_t r = 1; r < ranks; ++r) {
      a = combine(a, L::load(in[r] + i));
      b = combine(b, L::load(in[r] + i + kHalf));
      __builtin_prefetch(in[r] + i + kAhead, 0, 2);
    }
    write(i, a, b);
  }
  for (; i < n; ++i) {
    A sum = in[0][i];
    for (size_t r = 1; r < ranks; ++r) sum = combine(sum, static_cast<A>(in[r][i]));
    write(i, sum);
  }
}

// Does the same for a dtype and a reduction that are known at run time.
template <class View, class MakeWrite>
void reduce(std::span<const View> buffers, Reduction reduction, MakeWrite make_write) {
  dispatch(buffers[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto write = make_write(zero);
    if (reduction == Reduction::sum) return reduce_lines<T>(buffers, Sum(), write);
    reduce_lines<T>(buffers, Max(), write);
  });
}

template <class View>
void check_same(std::span<const View> buffers) {
  check(!buffers.empty(), "reduce: no buffers");
  for (const View& buffer : buffers) {
    check(
        buffer.dtype() == buffers[0].dtype() && buffer.num_elements() == buffers[0].num_elements(),
        "reduce: buffers of different dtypes or sizes");
  }
}

}  // namespace

void reduce_to_all(std::span<const TensorView> buffers, Reduction reduction) {
  check_same(buffers);
  reduce(buffers, reduction, [&]<class T>(T) {
    std::vector<T*> out;
    for (const TensorView& buffer : buffers) out.push_back(static_cast<T*>(buffer.data()));
    return [out](size_t i, auto... sums) {
      for (T* const to : out) store(to + i, sums...);
    };
  });
}

void reduce_to_one(TensorView out, std::span<const ConstTensorView> buffers, Reduction reduction) {
  check_same(buffers);
  check(out.dtype() == buffers[0].dtype() && out.num_elements() == buffers[0].num_elements(),
        "reduce_to_one: out is of another dtype or size");
  reduce(buffers, reduction, [&]<class T>(T) {
    T* const to = static_cast<T*>(out.data());
    return [to](size_t i, auto... sums) { store(to + i, sums...); };
  });
}

void copy_in_thread(TensorView out, ConstTensorView in) {
  const size_t bytes = in.num_bytes();
  check(out.num_bytes() == bytes, "copy_in_thread: another number of bytes");
  char* to = static_cast<char*>(out.data());
  const char* from = static_cast<const char*>(in.data());
#ifdef __x86_64__
  constexpr size_t kLine = 64, kHalf = sizeof(__m256i), kAhead = 2048, kLarge = size_t{1} << 20;
  if (bytes < kLarge) {
    std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = (kLine - reinterpret_cast<size_t>(to) % kLine) % kLine;
  const size_t end = bytes - (bytes - head) % kLine;
  std::memcpy(to, from, head);
  const auto load = [from](size_t at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
  };
  for (size_t at = head; at < end; at += kLine) {
    _mm_prefetch(from + at + kAhead, _MM_HINT_T0);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), load(at));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + kHalf), load(at + kHalf));
  }
  _mm_sfence();  // makes the streamed stores visible before later ones
  std::memcpy(to + end, from + end, bytes - end);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace ladder
