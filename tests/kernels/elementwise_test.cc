#include "kernels/elementwise.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

constexpr size_t kLengths[] = {1, 17, 63, 65, 1025, 5000};

TEST_CASE("fill writes the value to every element") {
  const OnDevice on = on_every_device();
  for (DType dtype : kFloats) {
    for (size_t n : kLengths) {
      for (double value : {0.0, -0.1, 1e30}) {
        const Array out(dtype, {n});
        fill(stream(), out, value);
        require_same_bits(out.values(), Values(n, rounded(dtype, value)));
      }
    }
  }
}

TEST_CASE("add is one rounded addition, and may write over an input") {
  const OnDevice on = on_every_device();
  for (DType dtype : kFloats) {
    for (size_t n : kLengths) {
      const Values a = random_values(dtype, n, "a"), b = random_values(dtype, n, "b");
      Values expected(n);
      for (size_t i = 0; i < n; ++i) expected[i] = rounded(dtype, a[i] + b[i]);
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
  for (DType dtype : kFloats) {
    for (size_t n : kLengths) {
      const Values in = random_values(dtype, n, "in");
      Values expected(n), size(n);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = 0.3 * in[i];
        size[i] = std::abs(expected[i]);
      }
      const Array out(dtype, {n}), x(dtype, {n}, in);
      scale(stream(), out, x, 0.3);
      // The factor is rounded to the dtype, then the product.
      require_within(out.values(), expected, rounding_error(dtype, 2), size);
      scale(stream(), x, x, 0.3);
      require_same_bits(x.values(), out.values());
      scale(stream(), x, out, -2);
      for (size_t i = 0; i < n; ++i) expected[i] = -2 * out.values()[i];
      require_same_bits(x.values(), expected);
    }
  }
}

TEST_CASE("cast rounds to nearest, ties to even") {
  const OnDevice on = on_every_device();
  const Values in = {1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, 1 + 3 * 0x1p-24, -0.1, 1e30, -0.0};
  for (DType from : kFloats) {
    for (DType to : kFloats) {
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

TEST_CASE("cast handles every length, both ways") {
  const OnDevice on = on_every_device();
  for (size_t n : kLengths) {
    const Values in = random_values(DType::fp64, n, "in");
    Values expected(n);
    for (size_t i = 0; i < n; ++i) expected[i] = rounded(DType::fp32, in[i]);
    const Array narrow(DType::fp32, {n}), wide(DType::fp64, {n});
    cast(stream(), narrow, Array(DType::fp64, {n}, in));
    require_same_bits(narrow.values(), expected);
    cast(stream(), wide, narrow);
    require_same_bits(wide.values(), expected);
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
  for (DType dtype : kFloats) {
    for (size_t n : kLengths) {
      Values expected(n);
      const double factor = rounded(dtype, 0.02 / kNormalDeviation);
      for (size_t i = 0; i < n; ++i) {
        expected[i] = rounded(dtype, random_normal_integer(key, first + i) * factor);
      }
      require_same_bits(normal(dtype, n, key, first, 0.02), expected);
    }
    require_same_for_any_threads([&] { return normal(dtype, 5000, key, first, 0.02); });
  }
}

TEST_CASE("fill_normal depends on the element's index only") {
  const OnDevice on = on_every_device();
  for (DType dtype : kFloats) {
    const Values whole = normal(dtype, 5000, 3, 100, 1);
    for (size_t split : {1, 63, 1024, 4999}) {
      Values parts = normal(dtype, split, 3, 100, 1);
      const Values rest = normal(dtype, 5000 - split, 3, 100 + split, 1);
      parts.insert(parts.end(), rest.begin(), rest.end());
      require_same_bits(parts, whole);
    }
  }
}

TEST_CASE("fill_normal in fp32 is fp64's number, rounded") {
  const OnDevice on = on_every_device();
  const Values narrow = normal(DType::fp32, 5000, 3, 0, 0.02);
  const Values wide = normal(DType::fp64, 5000, 3, 0, 0.02);
  Values size = wide;
  for (double& value : size) value = std::abs(value);
  // The factor and the product, each rounded in fp32; fp64's own roundings vanish in the 1 %.
  require_within(narrow, wide, rounding_error(DType::fp32, 2), size);
}

}  // namespace
}  // namespace ladder
