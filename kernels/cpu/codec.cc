#include "kernels/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/codec_format.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {
namespace {

// What decode_block() makes of the number that is there and the decoded one. Vectors are numbers,
// too.
struct Set {
  template <class T>
  T operator()(const T&, const T& decoded) const {
    return decoded;
  }
};
struct Add {
  template <class T>
  T operator()(const T& before, const T& decoded) const {
    return before + decoded;
  }
};
struct Subtract {
  template <class T>
  T operator()(const T& before, const T& decoded) const {
    return before - decoded;
  }
};

// Asks memory for what lies 16 KiB after x[0 .. n), which is soon needed. The hardware asks later,
// so that one core alone cannot keep memory busy.
template <class T>
void prefetch(const T* x, size_t n) {
  constexpr size_t kAhead = 16384, kLine = 64;
  const uintptr_t first = reinterpret_cast<uintptr_t>(x) + kAhead;
#pragma GCC unroll 4
  for (size_t i = 0; i < n * sizeof(T); i += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(first + i));
  }
}

// Calls body(first element, number of elements, first word) for each block.
template <class Body>
void for_blocks(const Codec& codec, size_t n, Body body) {
  const size_t words = encoded_words(codec, codec.block_size);
  for (size_t first = 0, word = 0; first < n; first += codec.block_size, word += words) {
    body(first, std::min(codec.block_size, n - first), word);
  }
}

template <class T>
BitsOf<T> largest_magnitude(const T* x, size_t n) {
  BitsOf<T> largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

// encode_block() makes a block's codes; scale_of() has found the scale, in bits of fp32, before.
template <class Form, class T>
uint32_t scale_of(Form, const T* x, size_t n) {
  return scale_bits<Form, T>(largest_magnitude(x, n));
}

template <class Form, class T>
void encode_block(Form form, uint32_t* to, uint32_t scale, const T* x, size_t n,
                  const Rounding& rounding) {
  to[0] = scale;
  uint8_t* const codes = reinterpret_cast<uint8_t*>(to + 1);
  if (scale == 0 || scale == kNanBits) {
    std::fill_n(codes, n, 0);
    return;
  }
  const T inverse = 1 / static_cast<T>(std::bit_cast<float>(scale));
  if (rounding.stochastic) {
    for (size_t i = 0; i < n; ++i) {
      codes[i] = form.stochastic(x[i] * inverse, random_for(rounding, i));
    }
    return;
  }
#pragma omp simd
  for (size_t i = 0; i < n; ++i) codes[i] = form.nearest(x[i] * inverse);
}

// out[i] = combine(out[i], what element i of the block decodes to).
template <class Form, class T, class Combine>
void decode_block(Form form, T* out, const uint32_t* from, size_t n, Combine combine) {
  const T scale = static_cast<T>(std::bit_cast<float>(from[0]));
  const uint8_t* const codes = reinterpret_cast<const uint8_t*>(from + 1);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    out[i] = combine(out[i], static_cast<T>(form.value(codes[i])) * scale);
  }
}

// The format with a sign alone.
struct Sign {};

// The mean of |x|. Lane l of 32 sums elements l, l + 32, ..., and the upper half of the lanes is
// added to the lower half until one is left, as a warp does.
template <class T>
T mean_magnitude(const T* x, size_t n) {
  constexpr size_t kLanes = Codec::kBlockMultiple;
  T lane[kLanes];
  for (size_t l = 0; l < kLanes; ++l) lane[l] = l < n ? std::abs(x[l]) : 0;
  size_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lane[l] += std::abs(x[i + l]);
  }
  for (size_t l = 0; i < n; ++i, ++l) lane[l] += std::abs(x[i]);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0] / static_cast<T>(n);
}

// Returns the signs of 32 elements, the first one in the lowest bit.
template <class T>
uint32_t signs_of_32(const T* x) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;
  uint32_t signs = 0;
  for (size_t i = 0; i < 32; ++i) {
    signs |= static_cast<uint32_t>(std::bit_cast<Bits>(x[i]) >> (8 * sizeof(T) - 1)) << i;
  }
  return signs;
}
#ifdef __x86_64__
// The same in two thirds of the time.
uint32_t signs_of_32(const float* x) {
  const __m256i_u* const v = reinterpret_cast<const __m256i_u*>(x);
  // Elements become half as wide, twice; saturation keeps their signs. Each half of a vector is
  // treated alone, so groups of four then stand in the order 0, 2, 4, 6, 1, 3, 5, 7.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order)));
}
#endif

template <class T>
uint32_t scale_of(Sign, const T* x, size_t n) {
  return finite_or_nan(mean_magnitude(x, n));
}

template <class T>
void encode_block(Sign, uint32_t* to, uint32_t scale, const T* x, size_t n, const Rounding&) {
  to[0] = scale;
  uint32_t* words = to + 1;
  size_t i = 0;
  for (; i + 32 <= n; i += 32) *words++ = signs_of_32(x + i);
  if (i == n) return;
  *words = 0;
  for (size_t bit = 0; i + bit < n; ++bit) *words |= uint32_t{std::signbit(x[i + bit])} << bit;
}

template <class T, class Combine>
void decode_block(Sign, T* out, const uint32_t* from, size_t n, Combine combine) {
  const uint32_t scale = from[0];
  const auto decode = [&](uint32_t word, size_t first, size_t count) {
#pragma omp simd
    for (size_t bit = 0; bit < count; ++bit) {
      const uint32_t sign = word >> bit << 31;
      T& to = out[first + bit];
      to = combine(to, static_cast<T>(std::bit_cast<float>(scale ^ sign)));
    }
  };
  size_t i = 0;
  for (; i + 32 <= n; i += 32) decode(from[1 + i / 32], i, 32);
  if (i < n) decode(from[1 + i / 32], i, n - i);
}

// The formats with 16 bits have no scale.
template <class Half, class T>
requires(sizeof(Half) == 2) uint32_t scale_of(Half, const T*, size_t) { return 0; }

template <class Half, class T>
requires(sizeof(Half) == 2) void encode_block(Half, uint32_t* to, uint32_t, const T* x, size_t n,
                                              const Rounding&) {
  Half* const codes = reinterpret_cast<Half*>(to);
  if constexpr (std::is_same_v<T, float>) return convert(codes, x, n);
  for (size_t i = 0; i < n; ++i) codes[i] = static_cast<Half>(x[i]);
}

template <class Half, class T, class Combine>
requires(sizeof(Half) == 2) void decode_block(Half, T* out, const uint32_t* from, size_t n,
                                              Combine combine) {
  const Half* const codes = reinterpret_cast<const Half*>(from);
  const T* const before = out;
  if constexpr (std::is_same_v<T, float>) return map_in_thread(combine, n, out, before, codes);
  for (size_t i = 0; i < n; ++i) {
    out[i] = combine(before[i], static_cast<T>(static_cast<float>(codes[i])));
  }
}

// Calls function(T{}, form) with the type of the elements and that of the format.
template <class Function>
void dispatch_codec(DType dtype, Format format, Function function) {
  dispatch_accumulation(dtype, [&](auto zero) {
    if (format == Format::sign) return function(zero, Sign());
    if (!has_scale(format)) {
      return dispatch_16_bits(format, [&](auto form) { function(zero, form); });
    }
    dispatch_8_bits(format, [&](auto form) { function(zero, form); });
  });
}

}  // namespace

void encode(Stream&, TensorView encoded, TensorView held, ConstTensorView in, Codec codec,
            Rounding rounding) {
  const size_t total = in.num_elements();
  if (total == 0) return;
  uint32_t* const to = static_cast<uint32_t*>(encoded.data());
  to[encoded_words(codec, total) - 1] = 0;  // the codes may not fill the last word
  dispatch_codec(in.dtype(), codec.format, [&](auto zero, auto form) {
    using T = decltype(zero);
    const T* const x = in.as<T>();
    T* const kept = held.empty() ? nullptr : held.as<T>();
    // Reads a block for the first time, and returns its scale.
    const auto begin = [&](size_t first) {
      const size_t n = std::min(codec.block_size, total - first);
      prefetch(x + first, n);
      if (kept == nullptr) return scale_of(form, x + first, n);
      T* const sum = kept + first;
      for (size_t i = 0; i < n; ++i) sum[i] += x[first + i];
      return scale_of(form, sum, n);
    };
    // A scale takes a maximum over the block and two divisions, one after the other. So that the
    // codes need not wait for it, the next block is begun before this one is encoded.
    uint32_t next_scale = begin(0);
    for_blocks(codec, total, [&](size_t first, size_t n, size_t word) {
      const uint32_t scale = next_scale;
      if (first + n < total) next_scale = begin(first + n);
      Rounding of_block = rounding;
      of_block.first += first;
      encode_block(form, to + word, scale, (kept == nullptr ? x : kept) + first, n, of_block);
      if (kept != nullptr) decode_block(form, kept + first, to + word, n, Subtract());
    });
  });
}

void decode_sum(Stream&, TensorView out, ConstTensorView encoded, Codec codec) {
  const size_t rows = encoded.shape()[0], stride = encoded.shape()[1];
  const uint32_t* const from = static_cast<const uint32_t*>(encoded.data());
  dispatch_codec(out.dtype(), codec.format, [&](auto zero, auto form) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    for_blocks(codec, out.num_elements(), [&](size_t first, size_t n, size_t word) {
      prefetch(o + first, n);
      decode_block(form, o + first, from + word, n, Set());
      for (size_t r = 1; r < rows; ++r) {
        decode_block(form, o + first, from + r * stride + word, n, Add());
      }
    });
  });
}

}  // namespace ladder::cpu
