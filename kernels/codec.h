// Codecs: gradients in fewer bits, for sending them to other ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/kernel.h"

namespace ladder {

// How an element is written in an encoded block.
enum class Format : uint8_t {
  fp16,      // 2 bytes, no scale; numbers that are too large become infinite
  bf16,      // 2 bytes, no scale
  fp8_e4m3,  // 1 byte times the block's scale: 3 fraction bits, largest number 448 [Micikevicius22]
  fp8_e5m2,  // the same with 2 fraction bits, largest number 57,344
  int8,      // 1 byte times the block's scale: a whole number from -127 to 127
  sign       // 1 bit: + or - the block's scale, which is the mean of |x| [Seide14]
};

inline constexpr size_t kNumFormats = 6;

constexpr std::string_view name_of(Format format) {
  constexpr std::string_view kNames[kNumFormats] = {"fp16",     "bf16", "fp8-e4m3",
                                                    "fp8-e5m2", "int8", "1bit"};
  return kNames[static_cast<size_t>(format)];
}

// Returns whether each block has a scale.
constexpr bool has_scale(Format format) { return format > Format::bf16; }
constexpr size_t bits_of(Format format) {
  return format == Format::sign ? 1 : has_scale(format) ? 8 : 16;
}

// A codec cuts n elements into blocks of block_size elements; the last block may be shorter. An
// encoded block is its scale, in fp32, and then the codes of its elements. All blocks lie one after
// the other. Each takes whole words of 4 bytes, so that the scales are aligned.
//
// The scale is the block's largest |x| divided by the format's largest number, so that nothing is
// cut off. If it would be below fp32's normal numbers, it is 0. If an element of the block is NaN
// or infinite, the scale is NaN and the whole block decodes to NaN: an overflow must not vanish.
struct Codec {
  // With larger blocks the bits of the scales are few already.
  static constexpr size_t kMostBlock = 65536;
  // Block sizes are multiples of it: 32 signs fill a word, and on a GPU a warp takes them at once.
  static constexpr size_t kBlockMultiple = 32;

  Format format = Format::int8;
  size_t block_size = 256;
};

// Returns the words of 4 bytes that n encoded elements take:
//   for each block  ceil(elements * bits / 32), and 1 if the format has a scale
constexpr size_t encoded_words(const Codec& codec, size_t n) {
  const auto block_words = [&](size_t elements) {
    if (elements == 0) return size_t{0};
    return size_t{has_scale(codec.format)} + (elements * bits_of(codec.format) + 31) / 32;
  };
  return n / codec.block_size * block_words(codec.block_size) + block_words(n % codec.block_size);
}

// How a number between two codes is rounded: to the nearest, ties to even; or, if `stochastic`, to
// one of the two by chance, such that its expected value is the number itself. [Alistarh17]
// Element i of a call then takes random number `first + i` of the ones that belong to `key` and
// `stream`. Only the formats with 8 bits can be rounded stochastically.
struct Rounding {
  bool stochastic = false;
  uint64_t key = 0, stream = 0, first = 0;
};

// encoded = code(in), for n elements. If `held` is given, error feedback: [Seide14]
//   held += in; encoded = code(held); held -= decode(encoded)
// So what the codes leave out is kept, and is sent with the next call.
//   encoded (encoded_words(codec, n)) int32 out; held (n) in/out, or empty; in (n) fp32 or fp64
// On the CPU it runs in the calling thread alone, because communicators encode in the background.
void encode(Stream& stream, TensorView encoded, TensorView held, ConstTensorView in, Codec codec,
            Rounding rounding);

// out[i] = (decode(encoded[0])[i] + decode(encoded[1])[i]) + ..., a sum over rows, in their order.
//   out (n) fp32 or fp64 out; encoded (R, at least encoded_words(codec, n)) int32 in, R >= 1
// On the CPU it runs in the calling thread alone.
void decode_sum(Stream& stream, TensorView out, ConstTensorView encoded, Codec codec);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost encode_cost(ConstTensorView encoded, ConstTensorView held, ConstTensorView in) {
  Cost cost = moving_cost(2 * number_of(in.num_elements()), {in}, {encoded});
  if (!held.empty()) cost += moving_cost(3 * number_of(in.num_elements()), {held}, {held});
  return cost;
}
inline Cost decode_sum_cost(ConstTensorView out, ConstTensorView encoded) {
  const double rows = number_of(encoded.shape()[0]);
  return moving_cost((2 * rows - 1) * number_of(out.num_elements()), {encoded}, {out});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::encode) encode;
decltype(ladder::decode_sum) decode_sum;
}  // namespace cpu

namespace cuda {
decltype(ladder::encode) encode;
decltype(ladder::decode_sum) decode_sum;
}  // namespace cuda

inline void check_codec(const char* kernel, const Codec& codec) {
  const size_t size = codec.block_size;
  if (size > 0 && size <= Codec::kMostBlock && size % Codec::kBlockMultiple == 0) return;
  fail(concat(kernel, ": blocks of ", size, " elements, expected a multiple of ",
              Codec::kBlockMultiple, " up to ", Codec::kMostBlock));
}

inline void encode(Stream& stream, TensorView encoded, TensorView held, ConstTensorView in,
                   Codec codec, Rounding rounding = {}) {
  check_codec("encode", codec);
  const ArgumentCheck expect("encode", stream, "in", in, 1, ArgumentCheck::kAccumulation);
  expect("encoded", encoded, DType::int32, {encoded_words(codec, in.num_elements())});
  if (!held.empty()) expect("held", held, in.shape());
  if (rounding.stochastic && bits_of(codec.format) != 8) {
    fail(concat("encode: ", name_of(codec.format), " cannot be rounded stochastically"));
  }
  run_body(expect, encode_cost(encoded, held, in), cpu::encode, cuda::encode, stream, encoded, held,
           in, codec, rounding);
}

inline void decode_sum(Stream& stream, TensorView out, ConstTensorView encoded, Codec codec) {
  check_codec("decode_sum", codec);
  const ArgumentCheck expect("decode_sum", stream, "out", out, 1, ArgumentCheck::kAccumulation);
  const bool is_matrix = encoded.shape().num_dims() == 2;
  const size_t rows = is_matrix ? encoded.shape()[0] : 0,
               words = is_matrix ? encoded.shape()[1] : 0;
  const size_t needed = encoded_words(codec, out.num_elements());
  expect("encoded", encoded, DType::int32, {std::max<size_t>(rows, 1), std::max(words, needed)});
  run_body(expect, decode_sum_cost(out, encoded), cpu::decode_sum, cuda::decode_sum, stream, out,
           encoded, codec);
}

}  // namespace ladder
