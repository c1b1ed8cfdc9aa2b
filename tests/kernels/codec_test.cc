#include "kernels/codec.h"

#include <cmath>

#include "kernels/codec_format.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

constexpr Format kFormats[] = {Format::fp16,     Format::bf16, Format::fp8_e4m3,
                               Format::fp8_e5m2, Format::int8, Format::sign};
constexpr Format k8Bits[] = {Format::fp8_e4m3, Format::fp8_e5m2, Format::int8};
constexpr size_t kLengths[] = {1, 17, 31, 64, 65, 1000};

Codec codec_of(Format format, size_t block_size = 64) { return {format, block_size}; }

// What n values decode to. `held` is updated.
Values through(const Codec& codec, DType dtype, const Values& in, Values* held = nullptr,
               const Rounding& rounding = {}) {
  const size_t n = in.size(), words = encoded_words(codec, n);
  const Array encoded(DType::int32, {words}), out(dtype, {n});
  const Array kept(dtype, {n}, held != nullptr ? *held : Values(n, 0));
  encode(stream(), encoded, held != nullptr ? kept.view() : TensorView(), Array(dtype, {n}, in),
         codec, rounding);
  decode_sum(stream(), out, encoded.view().reshape({1, words}), codec);
  if (held != nullptr) *held = kept.values();
  return out.values();
}

double largest_of(Format format) {
  return dispatch_8_bits(format, [](auto form) { return double{form.kLargest}; });
}

// All finite numbers of a format with 8 bits, by code.
std::vector<std::pair<int, double>> numbers_of(Format format) {
  std::vector<std::pair<int, double>> numbers;
  for (int code = 0; code < 256; ++code) {
    const double value = dispatch_8_bits(
        format, [&](auto form) { return double{form.value(static_cast<uint8_t>(code))}; });
    if (std::abs(value) <= largest_of(format)) numbers.emplace_back(code, value);
  }
  return numbers;
}

TEST_CASE("the words of encoded blocks, by hand") {
  CHECK(encoded_words(codec_of(Format::fp16), 129) == 65);
  CHECK(encoded_words(codec_of(Format::int8, 256), 256) == 65);
  CHECK(encoded_words(codec_of(Format::int8, 256), 512 + 5) == 2 * 65 + 1 + 2);
  CHECK(encoded_words(codec_of(Format::fp8_e4m3, 32), 0) == 0);
  CHECK(encoded_words(codec_of(Format::sign, 64), 64 + 33) == 3 + 3);
}

TEST_CASE("the formats with 8 bits have the numbers that their papers list") {
  // [Micikevicius22, table 1]
  CHECK(E4M3Format::value(0x08) == 0x1p-6F);
  CHECK(E4M3Format::value(0x01) == 0x1p-9F);
  CHECK(E4M3Format::value(0x38) == 1);
  CHECK(E4M3Format::value(0xBC) == -1.5);
  CHECK(E5M2Format::value(0x04) == 0x1p-14F);
  CHECK(E5M2Format::value(0x01) == 0x1p-16F);
  CHECK(E5M2Format::value(0x3D) == 1.25);
  CHECK(Int8Format::value(0x81) == -127);
}

TEST_CASE("every number of 8 bits is rounded to the nearest, ties to the even code") {
  const OnDevice on = on_every_device();
  for (Format format : k8Bits) {
    auto numbers = numbers_of(format);
    std::erase_if(numbers, [](const auto& number) { return number.first == 128; });  // -0, or -128
    std::ranges::sort(numbers, {}, [](const auto& number) { return number.second; });
    for (DType dtype : kAccumulation) {
      // Each number; the middles between neighbours; and just below and above these. The largest
      // number is among them, so the scale is 1.
      Values in, expected;
      for (size_t i = 0; i < numbers.size(); ++i) {
        in.push_back(numbers[i].second);
        expected.push_back(numbers[i].second);
        if (i + 1 == numbers.size()) break;
        const auto &below = numbers[i], &above = numbers[i + 1];
        const double middle = (below.second + above.second) / 2;
        const double even = below.first % 2 == 0 ? below.second : above.second;
        const double less = 0x1p-12 * (above.second - below.second);
        in.insert(in.end(), {middle, middle - less, middle + less});
        expected.insert(expected.end(), {even, below.second, above.second});
      }
      for (double x : in) REQUIRE(rounded(dtype, x) == x);
      const Values out = through(codec_of(format, 2048), dtype, in);
      INFO(name_of(format) << " " << name_of(dtype));
      for (size_t i = 0; i < in.size(); ++i) {
        if (out[i] != expected[i]) FAIL(concat(in[i], " became ", out[i], ", not ", expected[i]));
      }
    }
  }
}

// How far an element of a block may move: half the distance between numbers of the format near it.
double allowed_error(Format format, const Values& block, double x) {
  double largest = 0;
  for (double y : block) largest = std::max(largest, std::abs(y));
  const double size = std::abs(x);
  // The scale and the product with it are rounded to fp32, each by 2^-24 of an element at most, and
  // so is the quotient before it is rounded to a code.
  const double roundings = 3 * 0x1p-24 * size;
  switch (format) {
    case Format::fp16:
      return std::max(0x1p-11 * size, 0x1p-25);
    case Format::bf16:
      return 0x1p-8 * size;
    case Format::int8:
      return largest / 127 / 2 + roundings + 3 * 0x1p-24 * largest;
    case Format::fp8_e4m3:
      return std::max(0x1p-4 * size, 0x1p-10 * largest / 448) * (1 + 0x1p-20) + roundings;
    case Format::fp8_e5m2:
      return std::max(0x1p-3 * size, 0x1p-17 * largest / 57344) * (1 + 0x1p-20) + roundings;
    case Format::sign:
      return largest + size;
  }
  return 0;
}

TEST_CASE("an element moves by half a step of its format at most") {
  const OnDevice on = on_every_device();
  for (Format format : kFormats) {
    for (DType dtype : kAccumulation) {
      for (size_t n : kLengths) {
        // Block by block of another size.
        Values in = random_values(dtype, n, "in");
        for (size_t i = 0; i < n; ++i) in[i] = rounded(dtype, in[i] * std::exp2(i / 64 * 2.0 - 20));
        const Values out = through(codec_of(format), dtype, in);
        for (size_t i = 0; i < n; ++i) {
          const size_t begin = i / 64 * 64;
          const Values block(in.begin() + begin, in.begin() + std::min(n, begin + 64));
          const double allowed = allowed_error(format, block, in[i]);
          if (!(std::abs(out[i] - in[i]) <= allowed)) {
            FAIL(concat(name_of(format), " ", name_of(dtype), ": ", in[i], " became ", out[i],
                        ", allowed ", allowed));
          }
        }
      }
    }
  }
}

TEST_CASE("1bit: the mean of the sizes, with the sign") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    const Values in = {1, -2, 0, 5, -0.0, 4};
    const Values expected = {2, -2, 2, 2, -2, 2};
    require_same_bits(through(codec_of(Format::sign), dtype, in), expected);
    require_same_bits(through(codec_of(Format::sign), dtype, Values(40, 0)), Values(40, 0));
  }
}

TEST_CASE("all devices write the same words") {
  for (Format format : kFormats) {
    for (DType dtype : kAccumulation) {
      for (bool stochastic : {false, true}) {
        if (stochastic && bits_of(format) != 8) continue;
        for (size_t n : kLengths) {
          const Values in = random_values(dtype, n, "in"), held = random_values(dtype, n, "held");
          std::vector<Values> results;
          for (const Place& where : places()) {
            const OnDevice on(where);
            const Array encoded(DType::int32, {encoded_words(codec_of(format), n)});
            const Array kept(dtype, {n}, held);
            encode(stream(), encoded, kept, Array(dtype, {n}, in), codec_of(format),
                   {stochastic, 7, 8, 9});
            results.push_back(encoded.values());
            const Values now = kept.values();
            results.back().insert(results.back().end(), now.begin(), now.end());
            require_same_bits(results.back(), results.front());
          }
        }
      }
    }
  }
}

// Returns n numbers that are multiples of 1/64 below `most`, and at the beginning of each block
// `most` itself.
Values multiples(size_t n, const std::string& key, double most) {
  Values values = random_tokens(n, static_cast<int32_t>(2 * 64 * most), key);
  for (size_t i = 0; i < n; ++i) {
    values[i] = i % codec_of(Format::int8).block_size == 0 ? most : values[i] / 64 - most;
  }
  return values;
}

TEST_CASE("what has been sent and what is held make up what went in, to the bit") {
  const OnDevice on = on_every_device();
  constexpr size_t kN = 200;
  const auto test = [&](Format format, double most, double unit, int num_steps) {
    INFO(name_of(format));
    Values total(kN, 0), sent(kN, 0), held(kN, 0);
    for (int step = 0; step < num_steps; ++step) {
      Values in = multiples(kN, concat("step", step), most);
      for (size_t i = 0; i < kN; ++i) {
        // Room for what is held, so that the first element stays the largest of its block.
        if (in[i] != most) in[i] *= 0.75;
        in[i] *= unit;
      }
      const Values out = through(codec_of(format), DType::fp64, in, &held);
      for (size_t i = 0; i < kN; ++i) {
        total[i] += in[i];
        sent[i] += out[i];
      }
    }
    CHECK(std::ranges::any_of(held, [](double x) { return x != 0; }));
    for (size_t i = 0; i < kN; ++i) {
      if (sent[i] + held[i] != total[i]) {
        FAIL(concat("element ", i, ": sent ", sent[i], " and held ", held[i], ", in all ",
                    total[i]));
      }
    }
  };
  // The largest number of each block is the largest code, so the scale is `unit` in every step, and
  // all numbers are multiples of unit / 256.
  for (Format format : k8Bits) test(format, largest_of(format), 0.25, 20);
  // A sign's scale is a mean of 64 numbers, or of 8 in the last block: 6 bits more in each step.
  test(Format::sign, 127, 1, 5);
  for (Format format : {Format::fp16, Format::bf16}) test(format, 127, 0.25, 20);
}

TEST_CASE("a block with NaN or infinity decodes to NaN, and its neighbours as ever") {
  const OnDevice on = on_every_device();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (Format format : kFormats) {
    for (DType dtype : kAccumulation) {
      for (double bad : {std::nan(""), kInfinity, -kInfinity}) {
        Values in = random_values(dtype, 3 * 64, "in");
        const Values expected = through(codec_of(format), dtype, in);
        in[64 + 20] = bad;
        Values held(in.size(), 0);
        const Values out = through(codec_of(format), dtype, in, &held);
        for (size_t i = 0; i < in.size(); ++i) {
          const bool in_block = has_scale(format) ? i / 64 == 1 : i == 64 + 20;
          if (!in_block) {
            REQUIRE(out[i] == expected[i]);
            REQUIRE(std::isfinite(held[i]));
          } else if (has_scale(format)) {
            REQUIRE(std::isnan(out[i]));
            REQUIRE(std::isnan(held[i]));
          } else {
            REQUIRE_FALSE(std::isfinite(out[i]));
            REQUIRE(std::isnan(held[i]));  // infinity - infinity
          }
        }
      }
    }
  }
}

TEST_CASE("what no scale can hold is NaN, and what is too small is 0 and held") {
  const OnDevice on = on_every_device();
  for (Format format : k8Bits) {
    // Its largest number fits fp64 but 1e50 / 448 is beyond fp32.
    for (double x : through(codec_of(format), DType::fp64, Values(5, 1e50))) {
      REQUIRE(std::isnan(x));
    }
    const Values tiny = {0x1p-140, -0x1p-149, 0};
    Values held(3, 0);
    require_same_bits(through(codec_of(format), DType::fp32, tiny, &held), {0, 0, 0});
    require_same_bits(held, tiny);
  }
  REQUIRE(std::isinf(through(codec_of(Format::fp16), DType::fp32, {70000})[0]));
}

TEST_CASE("stochastic rounding takes one of both neighbours, and is right on average") {
  const OnDevice on = on_every_device();
  constexpr size_t kN = 65, kDraws = 400;
  for (Format format : k8Bits) {
    for (DType dtype : kAccumulation) {
      const Codec codec = codec_of(format, 96);
      Values in = random_values(dtype, kN, "in", 0.2 * largest_of(format));
      in[7] = largest_of(format);  // the scale is 1
      for (double& x : in) x = std::clamp(x, -largest_of(format), largest_of(format));
      Values mean(kN, 0);
      for (size_t draw = 0; draw < kDraws; ++draw) {
        const Values out = through(codec, dtype, in, nullptr, {true, 3, draw, 11});
        for (size_t i = 0; i < kN; ++i) mean[i] += out[i];
      }
      for (double& x : mean) x /= kDraws;
      for (size_t i = 0; i < kN; ++i) {
        double below = -1e9, above = 1e9;
        for (const auto& [code, x] : numbers_of(format)) {
          if (x <= in[i]) below = std::max(below, x);
          if (x >= in[i]) above = std::min(above, x);
        }
        // A draw deviates by half the step at most, their mean by half / sqrt(kDraws). Five times
        // that is exceeded once in two million.
        const double allowed = 5 * (above - below) / 2 / std::sqrt(kDraws);
        INFO(name_of(format) << " element " << i << " " << in[i] << ", mean " << mean[i]);
        REQUIRE(std::abs(mean[i] - in[i]) <= allowed);
      }
    }
  }
}

TEST_CASE("random numbers go by key, stream and element alone") {
  const Codec codec = codec_of(Format::int8);
  const Values in = random_values(DType::fp32, 128, "in");
  const Values all = through(codec, DType::fp32, in, nullptr, {true, 1, 2, 100});
  const Values half =
      through(codec, DType::fp32, Values(in.begin() + 64, in.end()), nullptr, {true, 1, 2, 164});
  require_same_bits(half, Values(all.begin() + 64, all.end()));
  CHECK(all != through(codec, DType::fp32, in, nullptr, {true, 1, 3, 100}));
  CHECK(all != through(codec, DType::fp32, in, nullptr, {true, 2, 2, 100}));
  CHECK(all != through(codec, DType::fp32, in, nullptr, {true, 1, 2, 104}));
}

TEST_CASE("decode_sum adds rows in their order, and ignores what follows a row's words") {
  const OnDevice on = on_every_device();
  constexpr size_t kRows = 3, kN = 100;
  for (Format format : kFormats) {
    for (DType dtype : kAccumulation) {
      const size_t words = encoded_words(codec_of(format), kN);
      const Array encoded(DType::int32, {kRows, words + 5});
      Values expected;
      for (size_t r = 0; r < kRows; ++r) {
        const Values in = random_values(dtype, kN, concat("row", r));
        encode(stream(), encoded.view().rows(r, 1).elements(0, {words}), {}, Array(dtype, {kN}, in),
               codec_of(format));
        const Values row = through(codec_of(format), dtype, in);
        if (r == 0) expected = row;
        for (size_t i = 0; i < kN && r > 0; ++i) expected[i] = rounded(dtype, expected[i] + row[i]);
      }
      const Array out(dtype, {kN});
      decode_sum(stream(), out, encoded, codec_of(format));
      require_same_bits(out.values(), expected);
    }
  }
}

TEST_CASE("codecs that do not exist are refused") {
  const Array encoded(DType::int32, {100}), in(DType::fp32, {64});
  for (size_t size : {size_t{0}, size_t{33}, size_t{65536 + 32}}) {
    CHECK_THROWS_WITH(encode(stream(), encoded, {}, in, codec_of(Format::int8, size)),
                      ContainsSubstring(concat("encode: blocks of ", size,
                                               " elements, expected a multiple "
                                               "of 32 up to 65536")));
    CHECK_THROWS_WITH(decode_sum(stream(), in, encoded, codec_of(Format::int8, size)),
                      ContainsSubstring("decode_sum: blocks of"));
  }
  CHECK_THROWS_WITH(encode(stream(), Array(DType::int32, {3}), {}, in, codec_of(Format::sign),
                           {.stochastic = true}),
                    ContainsSubstring("encode: 1bit cannot be rounded stochastically"));
  CHECK_THROWS_WITH(encode(stream(), Array(DType::int32, {17}), Array(DType::fp32, {63}), in,
                           codec_of(Format::int8)),
                    ContainsSubstring("encode: argument `held`"));
}

}  // namespace
}  // namespace ladder
