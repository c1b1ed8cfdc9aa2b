#include "kernels/collective.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kTile = 1024;  // elements that are summed in the L1 cache before they are written

// Calls function(T{}) for fp32, fp64 and int32.
template <class Function>
void dispatch(DType dtype, Function&& function) {
  if (dtype == DType::int32) return function(int32_t{});
  dispatch_float(dtype, function);
}

// sums[i] = the reduction over all buffers' elements first + i, i < n, in rank order.
template <class T, class View>
void reduce_tile(T* sums, std::span<const View> buffers, size_t first, size_t n,
                 Reduction reduction) {
  const T* const own = static_cast<const T*>(buffers[0].data()) + first;
  std::copy(own, own + n, sums);
  for (size_t r = 1; r < buffers.size(); ++r) {
    const T* const x = static_cast<const T*>(buffers[r].data()) + first;
    if (reduction == Reduction::sum) {
      for (size_t i = 0; i < n; ++i) sums[i] += x[i];
    } else {
      for (size_t i = 0; i < n; ++i) sums[i] = std::max(sums[i], x[i]);
    }
  }
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
  const size_t n = buffers[0].num_elements();
  dispatch(buffers[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (buffers.size() == 2 && reduction == Reduction::sum) {  // two streams need no tile
      T* const a = static_cast<T*>(buffers[0].data());
      T* const b = static_cast<T*>(buffers[1].data());
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) {
        const T total = a[i] + b[i];
        a[i] = total;
        b[i] = total;
      }
      return;
    }
    alignas(64) T sums[kTile];
    for (size_t first = 0; first < n; first += kTile) {
      const size_t count = std::min(kTile, n - first);
      reduce_tile(sums, buffers, first, count, reduction);
      for (const TensorView& buffer : buffers) {
        std::copy_n(sums, count, static_cast<T*>(buffer.data()) + first);
      }
    }
  });
}

void reduce_to_one(TensorView out, std::span<const ConstTensorView> buffers, Reduction reduction) {
  check_same(buffers);
  check(out.dtype() == buffers[0].dtype() && out.num_elements() == buffers[0].num_elements(),
        "reduce_to_one: out is of another dtype or size");
  const size_t n = out.num_elements();
  dispatch(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    alignas(64) T sums[kTile];
    for (size_t first = 0; first < n; first += kTile) {
      const size_t count = std::min(kTile, n - first);
      reduce_tile(sums, buffers, first, count, reduction);
      std::copy_n(sums, count, static_cast<T*>(out.data()) + first);
    }
  });
}

void copy_in_thread(TensorView out, ConstTensorView in) {
  const size_t bytes = in.num_bytes();
  check(out.num_bytes() == bytes, "copy_in_thread: another number of bytes");
  char* to = static_cast<char*>(out.data());
  const char* from = static_cast<const char*>(in.data());
  constexpr size_t kVector = sizeof(__m256i), kLarge = size_t{1} << 20;
  if (bytes < kLarge) {
    std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = (kVector - reinterpret_cast<size_t>(to) % kVector) % kVector;
  const size_t vectors = (bytes - head) / kVector;
  std::memcpy(to, from, head);
  for (size_t i = 0; i < vectors; ++i) {
    const size_t at = head + i * kVector;
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
  _mm_sfence();  // streamed stores become visible before what follows
  const size_t done = head + vectors * kVector;
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace ladder
