#include "kernels/rotary.h"

#include <numeric>

#include "kernels/cpu/plain_rotary.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

// B sequences of T tokens; a row has `before` heads, then `heads` that are turned, then `after`
// columns, which are no whole head.
struct Case {
  size_t B, T, head_size, before, heads, after;
  DType dtype;

  size_t columns() const { return (before + heads) * head_size + after; }
  Shape shape() const { return {B, T, columns()}; }
  Values values(const char* name) const { return random_values(dtype, B * T * columns(), name); }
  // Returns the index of element i of turned head h in row r.
  size_t at(size_t r, size_t h, size_t i) const {
    return r * columns() + (before + h) * head_size + i;
  }
};

Values table_for(DType dtype, size_t positions, size_t head_size, const Rotary& rotary = {}) {
  const Tensor table(memory(DeviceType::cpu), Category::workspace, accumulation_dtype(dtype),
                     {positions, head_size});
  fill_rotary_table(table, rotary);
  return dispatch_accumulation(table.dtype(), [&](auto zero) {
    const auto* const from = table.view().as<decltype(zero)>();
    return Values(from, from + positions * head_size);
  });
}

Array positions_array(const Shape& shape, const Values& positions) {
  return Array(DType::int32, shape, positions);
}

using Kernel = decltype(rotary_forward);

// Runs the kernel with a table of 200 positions; those of the rows are empty, (T) or (B, T).
Values run(Kernel kernel, const Case& c, const Values& x, const Values& positions = {}) {
  const Array in_place(c.dtype, c.shape(), x);
  const Array table(accumulation_dtype(c.dtype), {200, c.head_size},
                    table_for(c.dtype, 200, c.head_size));
  const HeadRange heads = {c.before, c.heads};
  if (positions.empty()) {
    kernel(stream(), in_place, heads, table, {});
  } else {
    const Shape shape = positions.size() == c.T ? Shape{c.T} : Shape{c.B, c.T};
    kernel(stream(), in_place, heads, table, positions_array(shape, positions));
  }
  return in_place.values();
}

// Returns the position of every row.
Values of_rows(const Case& c, const Values& positions) {
  Values all(c.B * c.T);
  for (size_t r = 0; r < all.size(); ++r) {
    all[r] = positions.empty() ? static_cast<double>(r % c.T) : positions[r % positions.size()];
  }
  return all;
}

// Compares the turned heads with the plain version, and the bits with the formula's from the table;
// the other elements must be as they were.
void compare(const Case& c, const Values& positions) {
  INFO(name_of(c.dtype) << " " << c.B << "x" << c.T << ", " << c.heads << " heads of "
                        << c.head_size);
  const Values x = c.values("x"), got = run(rotary_forward, c, x, positions);
  const Values back = run(rotary_backward, c, x, positions), rows = of_rows(c, positions);
  const Values table = table_for(c.dtype, 200, c.head_size);
  const size_t half = c.head_size / 2;
  const DType sums = accumulation_dtype(c.dtype);
  Values expected = x, expected_back = x, turned, turned_size, plain_in;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double* const cosines = table.data() + static_cast<size_t>(rows[r]) * c.head_size;
    for (size_t h = 0; h < c.heads; ++h) {
      for (size_t i = 0; i < c.head_size; ++i) plain_in.push_back(x[c.at(r, h, i)]);
      for (size_t i = 0; i < c.head_size; ++i) {
        const size_t first = c.at(r, h, i % half), second = first + half;
        const double cosine = cosines[i % half], sine = cosines[half + i % half];
        const auto sum = [&](double a, double b, double sign) {
          return stored(c.dtype, rounded(sums, a * cosine) + sign * rounded(sums, b * sine));
        };
        const double x1 = x[first], x2 = x[second];
        const size_t at = c.at(r, h, i);
        expected[at] = i < half ? sum(x1, x2, -1) : sum(x2, x1, 1);
        expected_back[at] = i < half ? sum(x1, x2, 1) : sum(x2, x1, -1);
        turned.push_back(got[at]);
        turned_size.push_back(std::abs(x1) + std::abs(x2));
      }
    }
  }
  require_same_bits(got, expected);
  require_same_bits(back, expected_back);
  // The table's numbers are rounded once, then the products and the sum. In fp64 this is also the
  // precision of the angles, which are up to 200: between the two of them six roundings at most,
  // of frequencies and products.
  const double of_angles = c.dtype == DType::fp64 ? 3 * 200 : 1;
  require_within(c.dtype, turned,
                 cpu::plain_rotary(plain_in, rows, cpu::plain_frequencies(10'000, c.head_size)),
                 rounding_error(c.dtype, 3 + of_angles), turned_size);
}

TEST_CASE("rotary turns the heads that it is told, by their rows' positions") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t head_size : {2, 6, 16, 64, 128, 130}) {
      compare({2, 5, head_size, 0, 3, 0, dtype}, {});
      compare({2, 5, head_size, 1, 2, 8, dtype}, {0, 7, 199, 7, 3});
      compare({2, 3, head_size, 2, 1, 3, dtype}, {0, 1, 2, 150, 0, 1});  // documents
    }
    const Values drawn = random_tokens(20, 20, "sizes");
    for (size_t i = 0; i + 4 < drawn.size(); i += 5) {
      const auto size = [&](size_t k) { return static_cast<size_t>(drawn[i + k]); };
      compare({size(0) % 3 + 1, size(1) + 1, 2 * size(2) + 2, size(3) % 3, size(4) % 5, 1, dtype},
              {});
    }
  }
}

TEST_CASE("rotary_backward is the gradient, and turns back") {
  const OnDevice on = on_every_device();
  const Case c = {2, 3, 6, 1, 2, 1, DType::fp64};
  const Values positions = {4, 0, 9}, x = c.values("x"), dout = c.values("dout");
  require_gradient(run(rotary_backward, c, dout, positions),
                   numeric_gradient(x, [&](const Values& moved) {
                     return dot(run(rotary_forward, c, moved, positions), dout);
                   }));
  for (DType dtype : floats()) {
    const Case d = {2, 5, 64, 0, 3, 2, dtype};
    const Values in = d.values("x");
    const Values there = run(rotary_forward, d, in), back = run(rotary_backward, d, there);
    // A turn and back: a length of at most |x1| + |x2|, and six roundings each way (two products
    // and a sum for each element of the point), one of the table's two numbers; stored twice.
    Values size = in;
    for (size_t i = 0; i < size.size(); ++i) {
      const size_t column = i % d.columns();
      if (column >= 3 * 64) continue;
      const size_t other = column % 64 < 32 ? i + 32 : i - 32;
      size[i] = std::abs(in[i]) + std::abs(in[other]);
    }
    for (double& one : size)
      one = std::abs(one) * rounding_error(dtype, 16) + 3 * storage_error(dtype, std::abs(one));
    require_within(back, in, 1, size);
  }
}

TEST_CASE("a score depends on the distance alone") {
  const OnDevice on = on_every_device();
  const Case c = {1, 2, 64, 0, 1, 0, DType::fp64};
  const Values x = c.values("x");
  const auto score = [&](double query, double key) {
    const Values turned = run(rotary_forward, c, x, {query, key});
    double sum = 0;
    for (size_t i = 0; i < 64; ++i) sum += turned[i] * turned[64 + i];
    return sum;
  };
  // 64 products of numbers of size 4 at most, and angles of up to 199, all to 2^-53: below 1e-11.
  CHECK(std::abs(score(7, 3) - score(199, 195)) < 1e-11);
  CHECK(std::abs(score(7, 3) - score(4, 0)) < 1e-11);
  CHECK(std::abs(score(7, 3) - score(7, 4)) > 1e-3);
}

// What a rank of context parallelism computes, with the positions of its slice, are rows of the
// whole.
TEST_CASE("rows of a slice have the bits that they have in the whole sequence") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Case whole = {2, 8, 16, 0, 3, 0, dtype}, slice = {2, 4, 16, 0, 3, 0, dtype};
    const Values positions = {0, 1, 6, 7}, x = whole.values("x");
    const auto rows_of_slice = [&](const Values& all) {
      Values some;
      for (size_t b = 0; b < 2; ++b) {
        for (double t : positions) {
          const auto row = all.begin() + static_cast<std::ptrdiff_t>((b * 8 + t) * 48);
          some.insert(some.end(), row, row + 48);
        }
      }
      return some;
    };
    require_same_bits(run(rotary_forward, slice, rows_of_slice(x), positions),
                      rows_of_slice(run(rotary_forward, whole, x)));
  }
}

TEST_CASE("rotary gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Case c = {3, 17, 32, 1, 4, 0, dtype};
    const Values x = c.values("x");
    require_same_for_any_threads([&] { return run(rotary_forward, c, x); });
    require_same_for_any_threads([&] { return run(rotary_backward, c, x); });
  }
}

TEST_CASE("the table has cosines and sines, rounded once, also of large angles") {
  // Cosine and sine of 100,000 radians, to 17 digits.
  const Values table = table_for(DType::fp32, 100'001, 2);
  CHECK(table[2 * 100'000] == rounded(DType::fp32, -0.99936080743821214));
  CHECK(table[2 * 100'000 + 1] == rounded(DType::fp32, 0.035748797972016507));
  const Values exact = table_for(DType::fp64, 5, 6);
  for (size_t p = 0; p < 5; ++p) {
    for (size_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(p) * cpu::plain_frequencies(10'000, 6)[i];
      CHECK(std::abs(exact[p * 6 + i] - std::cos(angle)) < 1e-15);
      CHECK(std::abs(exact[p * 6 + 3 + i] - std::sin(angle)) < 1e-15);
    }
  }
}

TEST_CASE("frequencies: theta, and Llama 3's scaling") {
  CHECK(rotary_frequencies({.theta = 10'000}, 4) == std::vector<double>{1, 0.01});
  CHECK(rotary_frequencies({.theta = 100}, 8)[2] == 0.1);
  // Llama 3.1: theta 500,000, heads of 128, the scaling's default numbers.
  const auto plain = rotary_frequencies({.theta = 500'000}, 128);
  const auto scaled = rotary_frequencies({.theta = 500'000, .scaling = Llama3Scaling()}, 128);
  REQUIRE(scaled.size() == 64);
  for (size_t i = 0; i < 64; ++i) {
    INFO(i);
    CHECK(std::abs(plain[i] - cpu::plain_frequencies(500'000, 128)[i]) <= 1e-15 * plain[i]);
    // 8192 f / (2 pi) turns: at least 4 up to i = 28, at most 1 from i = 35 on.
    if (i <= 28) CHECK(scaled[i] == plain[i]);
    if (i >= 35) CHECK(scaled[i] == plain[i] / 8);
    if (i > 28 && i < 35) {
      CHECK(scaled[i] < plain[i]);
      CHECK(scaled[i] > plain[i] / 8);
    }
  }
  // 2.26345... turns are 0.42115... of the way from 1 to 4, and so is the frequency.
  CHECK(std::abs(scaled[31] - 0.0008567514129196321) < 1e-15);
}

TEST_CASE("frequencies and tables refuse numbers that cannot be") {
  CHECK_THROWS_WITH(rotary_frequencies({}, 5), ContainsSubstring("odd head size"));
  CHECK_THROWS_WITH(rotary_frequencies({.theta = 0}, 4), ContainsSubstring("theta"));
  CHECK_THROWS_WITH(rotary_frequencies({.theta = std::nan("")}, 4), ContainsSubstring("theta"));
  for (const Llama3Scaling& bad :
       {Llama3Scaling{.factor = 0}, Llama3Scaling{.low_freq_factor = 0},
        Llama3Scaling{.low_freq_factor = 4}, Llama3Scaling{.original_positions = 0}}) {
    CHECK_THROWS_WITH(rotary_frequencies({.scaling = bad}, 4), ContainsSubstring("scaling"));
  }
  float element = 0;
  CHECK_THROWS_WITH(fill_rotary_table({&element, DType::fp32, cuda_device_of_build(), {1, 1}}, {}),
                    ContainsSubstring("another device"));
  CHECK_THROWS_WITH(fill_rotary_table({&element, DType::fp32, DeviceType::cpu, {1}}, {}),
                    ContainsSubstring("two dimensions"));
}

}  // namespace
}  // namespace ladder
