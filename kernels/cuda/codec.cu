#include "kernels/codec.h"

#include "kernels/codec_format.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

// Each block of the codec has a warp, whose lane l takes elements l, l + 32, ...
struct Block {
  size_t first, size, word;
  bool exists;
};

__device__ Block block_of_warp(const Codec& codec, size_t n) {
  const size_t index = thread_index() / kWarpSize, first = index * codec.block_size;
  const size_t left = first < n ? n - first : 0;
  return {first, left < codec.block_size ? left : codec.block_size,
          index * encoded_words(codec, codec.block_size), left > 0};
}

LaunchShape warps_for(const Codec& codec, size_t n) {
  return threads_for((n + codec.block_size - 1) / codec.block_size * kWarpSize);
}

// What a block's elements are encoded from: the inputs, or what is held with the inputs added.
template <class T>
__device__ const T* add_to_held(const Block& block, T* held, const T* in) {
  if (held == nullptr) return in + block.first;
  for (size_t i = lane_index(); i < block.size; i += kWarpSize) {
    held[block.first + i] += in[block.first + i];
  }
  return held + block.first;
}

struct LargerBits {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

template <class Form, class T>
__global__ void encode_8_bits_kernel(uint32_t* encoded, T* held, const T* in, size_t n, Codec codec,
                                     Rounding rounding) {
  const Block block = block_of_warp(codec, n);
  if (!block.exists) return;
  const T* const x = add_to_held(block, held, in);
  BitsOf<T> largest = 0;
  for (size_t i = lane_index(); i < block.size; i += kWarpSize) {
    largest = LargerBits()(largest, magnitude_bits(x[i]));
  }
  const uint32_t bits = scale_bits<Form, T>(warp_reduce(largest, LargerBits()));
  const T scale = static_cast<T>(std::bit_cast<float>(bits)), inverse = 1 / scale;
  const bool is_number = bits != 0 && bits != kNanBits;
  uint32_t* const to = encoded + block.word;
  uint8_t* const codes = reinterpret_cast<uint8_t*>(to + 1);
  if (lane_index() == 0) to[0] = bits;
  rounding.first += block.first;
  const size_t whole_words = (block.size + 3) / 4 * 4;  // the rest of the last word is 0
  for (size_t i = lane_index(); i < whole_words; i += kWarpSize) {
    uint8_t code = 0;
    if (i >= block.size) {
      codes[i] = 0;
      continue;
    }
    if (is_number && rounding.stochastic) {
      code = Form::stochastic(x[i] * inverse, random_for(rounding, i));
    } else if (is_number) {
      code = Form::nearest(x[i] * inverse);
    }
    codes[i] = code;
    if (held != nullptr) held[block.first + i] -= static_cast<T>(Form::value(code)) * scale;
  }
}

template <class T>
__global__ void encode_signs_kernel(uint32_t* encoded, T* held, const T* in, size_t n,
                                    Codec codec) {
  const Block block = block_of_warp(codec, n);
  if (!block.exists) return;
  const T* const x = add_to_held(block, held, in);
  T sum = 0;
  for (size_t i = lane_index(); i < block.size; i += kWarpSize) sum += std::abs(x[i]);
  const uint32_t bits = finite_or_nan(warp_sum(sum) / static_cast<T>(block.size));
  uint32_t* const to = encoded + block.word;
  if (lane_index() == 0) to[0] = bits;
  for (size_t first = 0; first < block.size; first += kWarpSize) {
    const size_t i = first + lane_index();
    const bool is_negative = i < block.size && std::signbit(x[i]);
    const unsigned signs = __ballot_sync(0xFFFFFFFF, is_negative);
    if (lane_index() == 0) to[1 + first / kWarpSize] = signs;
    if (held == nullptr || i >= block.size) continue;
    held[block.first + i] -=
        static_cast<T>(std::bit_cast<float>(bits ^ uint32_t{is_negative} << 31));
  }
}

template <class Half, class T>
__global__ void encode_16_bits_kernel(uint32_t* encoded, T* held, const T* in, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  Half* const codes = reinterpret_cast<Half*>(encoded);
  const T x = held == nullptr ? in[i] : held[i] + in[i];
  const Half code = static_cast<Half>(x);
  codes[i] = code;
  if (i + 1 == n && n % 2 == 1) codes[n] = Half::from_bits(0);  // the rest of the last word
  if (held != nullptr) held[i] = x - static_cast<T>(static_cast<float>(code));
}

// decode(row, block, i) is the i-th element of a block in a row.
template <class T, class Decode>
__global__ void decode_sum_kernel(T* out, size_t n, const uint32_t* encoded, size_t rows,
                                  size_t stride, Codec codec, Decode decode) {
  const Block block = block_of_warp(codec, n);
  if (!block.exists) return;
  for (size_t i = lane_index(); i < block.size; i += kWarpSize) {
    const uint32_t* const from = encoded + block.word;
    T sum = decode(from, i);
    for (size_t r = 1; r < rows; ++r) sum += decode(from + r * stride, i);
    out[block.first + i] = sum;
  }
}

template <class Form, class T>
struct Decode8Bits {
  __device__ T operator()(const uint32_t* block, size_t i) const {
    const uint8_t code = reinterpret_cast<const uint8_t*>(block + 1)[i];
    return static_cast<T>(Form::value(code)) * static_cast<T>(std::bit_cast<float>(block[0]));
  }
};

template <class T>
struct DecodeSign {
  __device__ T operator()(const uint32_t* block, size_t i) const {
    const uint32_t sign = block[1 + i / 32] >> (i % 32) << 31;
    return static_cast<T>(std::bit_cast<float>(block[0] ^ sign));
  }
};

template <class Half, class T>
struct Decode16Bits {
  __device__ T operator()(const uint32_t* block, size_t i) const {
    return static_cast<T>(static_cast<float>(reinterpret_cast<const Half*>(block)[i]));
  }
};

}  // namespace

void encode(Stream& stream, TensorView encoded, TensorView held, ConstTensorView in, Codec codec,
            Rounding rounding) {
  const size_t n = in.num_elements();
  uint32_t* const to = static_cast<uint32_t*>(encoded.data());
  const LaunchShape warps = warps_for(codec, n);
  dispatch_accumulation(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const kept = held.empty() ? nullptr : held.as<T>();
    if (codec.format == Format::sign) {
      launch<encode_signs_kernel<T>>(stream.native(), warps, to, kept, in.as<T>(), n, codec);
    } else if (has_scale(codec.format)) {
      dispatch_8_bits(codec.format, [&](auto form) {
        launch<encode_8_bits_kernel<decltype(form), T>>(stream.native(), warps, to, kept,
                                                        in.as<T>(), n, codec, rounding);
      });
    } else {
      dispatch_16_bits(codec.format, [&](auto form) {
        launch<encode_16_bits_kernel<decltype(form), T>>(stream.native(), threads_for(n), to, kept,
                                                         in.as<T>(), n);
      });
    }
  });
}

void decode_sum(Stream& stream, TensorView out, ConstTensorView encoded, Codec codec) {
  const size_t n = out.num_elements(), rows = encoded.shape()[0], stride = encoded.shape()[1];
  const uint32_t* const from = static_cast<const uint32_t*>(encoded.data());
  dispatch_accumulation(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto decode) {
      launch<decode_sum_kernel<T, decltype(decode)>>(
          stream.native(), warps_for(codec, n), out.as<T>(), n, from, rows, stride, codec, decode);
    };
    if (codec.format == Format::sign) {
      run(DecodeSign<T>());
    } else if (has_scale(codec.format)) {
      dispatch_8_bits(codec.format, [&](auto form) { run(Decode8Bits<decltype(form), T>()); });
    } else {
      dispatch_16_bits(codec.format, [&](auto form) { run(Decode16Bits<decltype(form), T>()); });
    }
  });
}

}  // namespace ladder::cuda
