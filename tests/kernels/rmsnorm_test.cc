#include "kernels/rmsnorm.h"

#include "kernels/cpu/plain_rmsnorm.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

// Columns: odd ones, and some that are moved in packs where arrays are aligned.
constexpr size_t kWidths[] = {1, 17, 63, 64, 65, 300};
constexpr double kEpsilon = 1e-5;

using cpu::PlainRmsnorm, cpu::PlainRmsnormGradients;

struct Inputs {
  Inputs(DType dtype_, size_t rows_, size_t n_)
      : dtype(dtype_),
        rows(rows_),
        n(n_),
        in(random_values(dtype, rows * n, "in")),
        weight(random_values(dtype, n, "weight")),
        dout(random_values(dtype, rows * n, "dout")),
        start{random_values(dtype, rows * n, "din"), random_values(sums(), n, "dweight")} {}

  DType sums() const { return accumulation_dtype(dtype); }

  DType dtype;
  size_t rows, n;
  Values in, weight, dout;
  PlainRmsnormGradients start;
};

PlainRmsnorm run_forward(const Inputs& x, double epsilon = kEpsilon) {
  const Array out(x.dtype, {x.rows, x.n}), rstd(x.sums(), {x.rows});
  rmsnorm_forward(stream(), out, rstd, Array(x.dtype, {x.rows, x.n}, x.in),
                  Array(x.dtype, {x.n}, x.weight), epsilon);
  return {out.values(), rstd.values()};
}

PlainRmsnormGradients run_backward(const Inputs& x, const Values& rstd, bool with_weight = true) {
  const Array din(x.dtype, {x.rows, x.n}, x.start.din);
  const Array dweight(x.sums(), {x.n}, x.start.dweight);
  rmsnorm_backward(stream(), din, with_weight ? TensorView(dweight) : TensorView(),
                   Array(x.dtype, {x.rows, x.n}, x.dout), Array(x.dtype, {x.rows, x.n}, x.in),
                   Array(x.dtype, {x.n}, x.weight), Array(x.sums(), {x.rows}, rstd));
  return {din.values(), dweight.values()};
}

Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Values absolute(Values values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

void compare_forward(DType dtype, size_t rows, size_t n, double epsilon = kEpsilon) {
  INFO(name_of(dtype) << " " << rows << "x" << n << ", epsilon " << epsilon);
  const Inputs x(dtype, rows, n);
  const PlainRmsnorm expected = cpu::plain_rmsnorm_forward(x.in, x.weight, epsilon);
  const PlainRmsnorm got = run_forward(x, epsilon);
  // In whatever order n terms are added, none goes through more than n additions that round. The
  // mean of the squares: that, the square, 1/n and the multiplication by it, plus epsilon, which
  // may itself be rounded. All terms are positive, so these are relative errors; the root halves
  // them, and two roundings follow. out: two more.
  const double count = static_cast<double>(n);
  require_within(got.rstd, expected.rstd, rounding_error(dtype, (count + 4) / 2 + 2),
                 expected.rstd);
  require_within(dtype, got.out, expected.out, rounding_error(dtype, (count + 4) / 2 + 4),
                 absolute(expected.out));
}

TEST_CASE("rmsnorm_forward equals the reference") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : kOddSizes) {
      for (size_t n : kWidths) compare_forward(dtype, rows, n);
    }
  }
}

TEST_CASE("rmsnorm_forward takes any epsilon, and it stands under the root") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (double epsilon : {0.0, 1e-6, 1e-5, 0.5, 100.0}) compare_forward(dtype, 3, 65, epsilon);
  }
  // The mean square is 9, and 9 + 16 has the root 5. Behind the root it would be 1 / (3 + 16).
  Inputs x(DType::fp64, 1, 4);
  x.in = {3, -3, 3, -3};
  CHECK(run_forward(x, 16).rstd == Values{0.2});
  x.in = {0, 0, 0, 0};
  CHECK(run_forward(x, 4).rstd == Values{0.5});
  CHECK(run_forward(x, 4).out == Values(4, 0));
}

void compare_backward(DType dtype, size_t rows, size_t n) {
  INFO(name_of(dtype) << " " << rows << "x" << n);
  const Inputs x(dtype, rows, n);
  Values rstd = cpu::plain_rmsnorm_forward(x.in, x.weight, kEpsilon).rstd;
  for (double& value : rstd) value = rounded(x.sums(), value);
  const PlainRmsnormGradients got = run_backward(x, rstd);
  const PlainRmsnormGradients expected = cpu::plain_rmsnorm_backward(x.dout, x.in, x.weight, rstd);
  // What the errors are relative to: the formula's terms with their absolute values. From those din
  // is rstd * (|g| - the other term), where it should be added.
  const PlainRmsnormGradients sizes =
      cpu::plain_rmsnorm_backward(absolute(x.dout), absolute(x.in), absolute(x.weight), rstd);
  Values din_size(rows * n);
  for (size_t i = 0; i < din_size.size(); ++i) {
    const double g = std::abs(x.dout[i] * x.weight[i % n]);
    din_size[i] = 2 * rstd[i / n] * g - sizes.din[i] + std::abs(x.start.din[i]);
  }
  // din: a sum of n terms of three operations and the mean's two, then at most five more. dweight:
  // sums of `rows` terms of two operations, added to the start.
  const double count = static_cast<double>(n), row_count = static_cast<double>(rows);
  require_within(dtype, got.din, sum_of(expected.din, x.start.din),
                 rounding_error(dtype, count + 10), din_size);
  require_within(got.dweight, sum_of(expected.dweight, x.start.dweight),
                 rounding_error(dtype, row_count + 3),
                 sum_of(sizes.dweight, absolute(x.start.dweight)));
}

TEST_CASE("rmsnorm of any shape equals the plain one") {
  const OnDevice on = on_every_device();
  const Values rows = random_tokens(5, 70, "rows"), widths = random_tokens(5, 300, "widths");
  for (size_t i = 0; i < rows.size(); ++i) {
    for (DType dtype : floats()) {
      const size_t r = static_cast<size_t>(rows[i]) + 1, n = static_cast<size_t>(widths[i]) + 1;
      compare_forward(dtype, r, n);
      compare_backward(dtype, r, n);
    }
  }
}

TEST_CASE("rmsnorm_backward adds what the reference says") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : {1, 17, 63, 65, 130}) {
      for (size_t n : kWidths) compare_backward(dtype, rows, n);
    }
  }
}

// A GPU's warp keeps up to 3, 4 or 8 packs a lane in registers; 2056 elements of 16 bits are more.
TEST_CASE("rmsnorm of rows that fit registers, and of wider ones") {
  const OnDevice on = on_every_device();
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  for (size_t n : {264, 384, 776, 1032, 1600, 2048, 2056}) {
    compare_forward(dtype, 9, n);
    compare_backward(dtype, 9, n);
  }
}

TEST_CASE("rmsnorm of more rows than a GPU's warps take at once") {
  const OnDevice on = on_every_device();
  for (DType dtype : {DType::bf16, DType::fp16}) {
    compare_forward(dtype, 4500, 8);
    compare_backward(dtype, 4500, 8);
  }
}

TEST_CASE("rmsnorm_backward adds the gradient") {
  const OnDevice on = on_every_device();
  const Inputs x(DType::fp64, 4, 7);
  const PlainRmsnormGradients got = run_backward(x, run_forward(x).rstd);
  const auto gradient = [&](Values Inputs::*input) {
    return numeric_gradient(x.*input, [&](const Values& values) {
      Inputs moved = x;
      moved.*input = values;
      return dot(run_forward(moved).out, x.dout);
    });
  };
  require_gradient(got.din, sum_of(gradient(&Inputs::in), x.start.din));
  require_gradient(got.dweight, sum_of(gradient(&Inputs::weight), x.start.dweight));
}

TEST_CASE("rmsnorm_backward leaves out dweight if nobody wants it, and din keeps its bits") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : {8, 304, 2056}) {
      INFO(name_of(dtype) << " " << n);
      const Inputs x(dtype, 130, n);
      const Values rstd = run_forward(x).rstd;
      const PlainRmsnormGradients got = run_backward(x, rstd, false);
      CHECK(got.din == run_backward(x, rstd).din);
      CHECK(got.dweight == x.start.dweight);
    }
  }
}

TEST_CASE("rmsnorm gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Inputs x(dtype, 130, 304);
    const Values rstd = run_forward(x).rstd;
    require_same_for_any_threads([&] {
      const PlainRmsnorm f = run_forward(x);
      return joined(f.out, f.rstd);
    });
    require_same_for_any_threads([&] {
      const PlainRmsnormGradients b = run_backward(x, rstd);
      return joined(b.din, b.dweight);
    });
  }
}

}  // namespace
}  // namespace ladder
