#include "kernels/elementwise.h"

#include <bit>
#include <numeric>

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

constexpr size_t kLengths[] = {1, 17, 63, 65, 1025, 5000};

TEST_CASE("fill writes the value to every element") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : kLengths) {
      for (double value : {0.0, -0.1, 1.0 + 0x1p-8 + 0x1p-40, 1e30}) {  // fp16: infinite
        const Array out(dtype, {n});
        fill(stream(), out, value);
        require_same_bits(out.values(), Values(n, rounded(dtype, value)));
      }
    }
  }
}

TEST_CASE("add is one rounded addition, and may write over an input") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : kLengths) {
      const Values a = random_values(dtype, n, "a"), b = random_values(dtype, n, "b");
      Values expected(n);
      for (size_t i = 0; i < n; ++i) expected[i] = stored(dtype, a[i] + b[i]);
      const Array out(dtype, {n}), x(dtype, {n}, a), y(dtype, {n}, b);
      add(stream(), out, x, y);
      require_same_bits(out.values(), expected);
      require_same_bits(x.values(), a);
      require_same_bits(y.values(), b);
      add(stream(), x, x, y);
      require_same_bits(x.values(), expected);
      add(stream(), y, Array(dtype, {n}, a), y);
      require_same_bits(y.values(), expected);
    }
  }
}

TEST_CASE("scale multiplies, and may write over its input") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : kLengths) {
      const Values in = random_values(dtype, n, "in");
      Values expected(n), size(n);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = 0.3 * in[i];
        size[i] = std::abs(expected[i]);
      }
      const Array out(dtype, {n}), x(dtype, {n}, in);
      scale(stream(), out, x, 0.3);
      // The factor is rounded, then the product.
      require_within(dtype, out.values(), expected, rounding_error(dtype, 2), size);
      scale(stream(), x, x, 0.3);
      require_same_bits(x.values(), out.values());
      scale(stream(), x, out, -2);
      for (size_t i = 0; i < n; ++i) expected[i] = -2 * out.values()[i];
      require_same_bits(x.values(), expected);
    }
  }
}

TEST_CASE("add_scaled multiplies and adds, and may write over an input") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : kLengths) {
      const Values a = random_values(dtype, n, "a"), b = random_values(dtype, n, "b");
      Values expected(n), size(n);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = 0.3 * a[i] + b[i];
        size[i] = std::abs(0.3 * a[i]) + std::abs(b[i]);
      }
      const Array out(dtype, {n}), x(dtype, {n}, a), y(dtype, {n}, b);
      add_scaled(stream(), out, x, 0.3, y);
      // The factor is rounded, then the product, then the sum.
      require_within(dtype, out.values(), expected, rounding_error(dtype, 3), size);
      add_scaled(stream(), x, x, 0.3, y);
      require_same_bits(x.values(), out.values());
      add_scaled(stream(), y, Array(dtype, {n}, a), 0.3, y);
      require_same_bits(y.values(), out.values());
    }
  }
}

TEST_CASE("cast rounds to nearest, ties to even, once") {
  const OnDevice on = on_every_device();
  // By way of fp32, what lies just beside a tie of bf16 or fp16 would come out as the tie.
  const Values in = {1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, 1 + 3 * 0x1p-24,      -0.1,  1e30,  -0.0,
                     1 + 0x1p-8,  1 + 0x1p-8 + 0x1p-50,  1 + 3 * 0x1p-8,       1e300, 65520, 1e-320,
                     1 + 0x1p-11, 1 + 0x1p-11 - 0x1p-50, 1 + 0x1p-11 + 0x1p-50};
  for (DType from : floats()) {
    for (DType to : floats()) {
      INFO(name_of(from) << " to " << name_of(to));
      Values start = in, expected(in.size());
      for (double& value : start) value = rounded(from, value);
      for (size_t i = 0; i < in.size(); ++i) expected[i] = rounded(to, start[i]);
      const Array out(to, {in.size()});
      cast(stream(), out, Array(from, {in.size()}, start));
      require_same_bits(out.values(), expected);
    }
  }
  const Array out(DType::fp32, {3});
  cast(stream(), out, Array(DType::fp64, {3}, {1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, 1e300}));
  CHECK(out.values()[0] == 1);            // the tie goes to the even number
  CHECK(out.values()[1] == 1 + 0x1p-23);  // just above it
  CHECK(std::isinf(out.values()[2]));
}

TEST_CASE("cast handles every length, between all dtypes") {
  const OnDevice on = on_every_device();
  for (size_t n : kLengths) {
    for (DType from : floats()) {
      for (DType to : floats()) {
        const Values in = random_values(from, n, "in");
        Values expected(n);
        for (size_t i = 0; i < n; ++i) expected[i] = rounded(to, in[i]);
        const Array out(to, {n});
        cast(stream(), out, Array(from, {n}, in));
        require_same_bits(out.values(), expected);
      }
    }
  }
}

// The bits that cast makes of the bits of numbers.
template <class To, class From>
std::vector<To> cast_bits(DType to, DType from, const std::vector<From>& bits) {
  const Shape shape{bits.size()};
  const Tensor in(memory(), Category::workspace, from, shape);
  const Tensor out(memory(), Category::workspace, to, shape);
  std::vector<To> result(bits.size());
  copy(stream(), in, ConstTensorView(bits.data(), from, DeviceType::cpu, shape));
  cast(stream(), out, in);
  copy(stream(), TensorView(result.data(), to, DeviceType::cpu, shape), out);
  stream().synchronize();
  return result;
}

template <class Low>
void require_casts_of_all(DType dtype) {
  std::vector<uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), uint16_t{0});
  const std::vector<uint32_t> wide = cast_bits<uint32_t>(DType::fp32, dtype, all);
  const std::vector<uint16_t> back = cast_bits<uint16_t>(dtype, DType::fp32, wide);
  std::vector<uint32_t> between;  // the numbers halfway to the next one, and their neighbours
  for (uint16_t bits : all) {
    const float value = Low::from_bits(bits);
    const bool is_same = std::isnan(value)
                             ? std::isnan(std::bit_cast<float>(wide[bits])) &&
                                   std::isnan(static_cast<float>(Low::from_bits(back[bits])))
                             : wide[bits] == std::bit_cast<uint32_t>(value) && back[bits] == bits;
    if (!is_same) FAIL("the bits " << bits << " became " << wide[bits] << ", then " << back[bits]);
    const float next = Low::from_bits(static_cast<uint16_t>(bits + 1));
    if (!std::isfinite(value) || !std::isfinite(next) || value == 0) continue;
    const uint32_t middle = std::bit_cast<uint32_t>(value / 2 + next / 2);
    between.insert(between.end(), {middle - 1, middle, middle + 1});
  }
  const std::vector<uint16_t> got = cast_bits<uint16_t>(dtype, DType::fp32, between);
  for (size_t i = 0; i < got.size(); ++i) {
    const Low expected(std::bit_cast<float>(between[i]));
    if (got[i] != expected.bits()) FAIL(between[i] << " became " << got[i]);
  }
}

TEST_CASE("cast of every bf16 and fp16, and of what lies between them, is low_precision.h's") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    if (dtype == DType::bf16) require_casts_of_all<bfloat16>(dtype);
    if (dtype == DType::fp16) require_casts_of_all<float16>(dtype);
  }
}

Values normal(DType dtype, size_t n, uint64_t key, uint64_t first, double deviation) {
  const Array out(dtype, {n});
  fill_normal(stream(), out, key, first, deviation);
  return out.values();
}

TEST_CASE("fill_normal is one multiplication of the random integer") {
  const OnDevice on = on_every_device();
  const uint64_t key = random_key(7, "h.0.attn.c_attn.weight"), first = uint64_t{5} << 33;
  for (DType dtype : floats()) {
    for (size_t n : kLengths) {
      Values expected(n);
      const double factor = rounded(accumulation_dtype(dtype), 0.02 / kNormalDeviation);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = stored(dtype, random_normal_integer(key, first + i) * factor);
      }
      require_same_bits(normal(dtype, n, key, first, 0.02), expected);
    }
    require_same_for_any_threads([&] { return normal(dtype, 5000, key, first, 0.02); });
  }
}

TEST_CASE("fill_normal depends on the element's index only") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Values whole = normal(dtype, 5000, 3, 100, 1);
    for (size_t split : {1, 63, 1024, 4999}) {
      Values parts = normal(dtype, split, 3, 100, 1);
      const Values rest = normal(dtype, 5000 - split, 3, 100 + split, 1);
      parts.insert(parts.end(), rest.begin(), rest.end());
      require_same_bits(parts, whole);
    }
  }
}

TEST_CASE("fill_normal in fp32 is fp64's number, rounded, and fp32's in bf16 and fp16") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    if (accumulation_dtype(dtype) == dtype) continue;
    Values expected = normal(DType::fp32, 5000, 3, 0, 0.02);
    for (double& value : expected) value = rounded(dtype, value);
    require_same_bits(normal(dtype, 5000, 3, 0, 0.02), expected);
  }
  const Values narrow = normal(DType::fp32, 5000, 3, 0, 0.02);
  const Values wide = normal(DType::fp64, 5000, 3, 0, 0.02);
  Values size = wide;
  for (double& value : size) value = std::abs(value);
  // The factor and the product, each rounded in fp32; fp64's own roundings vanish in the 1 %.
  require_within(narrow, wide, rounding_error(DType::fp32, 2), size);
}

}  // namespace
}  // namespace ladder
