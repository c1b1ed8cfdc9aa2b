#include "kernels/layernorm.h"

#include "kernels/cpu/plain_layernorm.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

// Columns: odd ones, and some that are moved in packs where arrays are aligned.
constexpr size_t kWidths[] = {1, 17, 63, 64, 65, 300};

using cpu::PlainLayernorm, cpu::PlainLayernormGradients;

struct Inputs {
  Inputs(DType dtype_, size_t rows_, size_t n_)
      : dtype(dtype_),
        rows(rows_),
        n(n_),
        in(random_values(dtype, rows * n, "in")),
        weight(random_values(dtype, n, "weight")),
        bias(random_values(dtype, n, "bias")),
        dout(random_values(dtype, rows * n, "dout")),
        start{random_values(dtype, rows * n, "din"), random_values(sums(), n, "dweight"),
              random_values(sums(), n, "dbias")} {}

  DType sums() const { return accumulation_dtype(dtype); }

  DType dtype;
  size_t rows, n;
  Values in, weight, bias, dout;
  PlainLayernormGradients start;
};

PlainLayernorm run_forward(const Inputs& x) {
  const Array out(x.dtype, {x.rows, x.n}), mean(x.sums(), {x.rows}), rstd(x.sums(), {x.rows});
  layernorm_forward(stream(), out, mean, rstd, Array(x.dtype, {x.rows, x.n}, x.in),
                    Array(x.dtype, {x.n}, x.weight), Array(x.dtype, {x.n}, x.bias));
  return {out.values(), mean.values(), rstd.values()};
}

PlainLayernormGradients run_backward(const Inputs& x, const Values& mean, const Values& rstd,
                                     bool with_weight = true, bool with_bias = true) {
  const Array din(x.dtype, {x.rows, x.n}, x.start.din);
  const Array dweight(x.sums(), {x.n}, x.start.dweight), dbias(x.sums(), {x.n}, x.start.dbias);
  layernorm_backward(stream(), din, with_weight ? TensorView(dweight) : TensorView(),
                     with_bias ? TensorView(dbias) : TensorView(),
                     Array(x.dtype, {x.rows, x.n}, x.dout), Array(x.dtype, {x.rows, x.n}, x.in),
                     Array(x.dtype, {x.n}, x.weight), Array(x.sums(), {x.rows}, mean),
                     Array(x.sums(), {x.rows}, rstd));
  return {din.values(), dweight.values(), dbias.values()};
}

Values joined(const Values& a, const Values& b, const Values& c) {
  Values all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

Values absolute(Values values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

PlainLayernorm expected_forward(const Inputs& x, const Values& in) {
  return cpu::plain_layernorm_forward(in, x.weight, x.bias, kLayernormEpsilon);
}

void compare_forward(DType dtype, size_t rows, size_t n) {
  INFO(name_of(dtype) << " " << rows << "x" << n);
  const Inputs x(dtype, rows, n);
  const PlainLayernorm expected = expected_forward(x, x.in), got = run_forward(x);
  // What the errors of mean and out are relative to: the mean of |x|, and
  // (|normalized| + rstd * mean of |x|) * |weight| + |bias|.
  const Values mean_size = expected_forward(x, absolute(x.in)).mean;
  Values size(rows * n);
  for (size_t i = 0; i < size.size(); ++i) {
    const size_t r = i / n, c = i % n;
    size[i] = (std::abs(x.in[i] - expected.mean[r]) + mean_size[r]) * expected.rstd[r] *
                  std::abs(x.weight[c]) +
              std::abs(x.bias[c]);
  }
  const double count = static_cast<double>(n);
  // In whatever order n terms are added, none goes through more than n additions that round. The
  // mean: n additions and the multiplication by a rounded 1/n. The variance: that, a difference
  // squared (3) and the mean's own error (squared, so nothing), plus epsilon; the root halves it,
  // and two roundings follow. out: the sum of both relative errors and four more; the mean's error
  // enters as rstd * mean|x|, which is in `size`.
  require_within(got.mean, expected.mean, rounding_error(dtype, count + 2), mean_size);
  require_within(got.rstd, expected.rstd, rounding_error(dtype, (count + 6) / 2 + 2),
                 expected.rstd);
  require_within(dtype, got.out, expected.out, rounding_error(dtype, 1.5 * count + 12), size);
}

TEST_CASE("layernorm_forward equals the reference") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : kOddSizes) {
      for (size_t n : kWidths) compare_forward(dtype, rows, n);
    }
  }
}

TEST_CASE("layernorm_forward keeps its precision far from zero") {
  const OnDevice on = on_every_device();
  // A mean of 1,000 and a deviation of 1: a variance taken as E[x^2] - E[x]^2 would have lost
  // 10^6 * 2^-24 = 6 % of it. Here the error is that of x - mean, 1,000 * (n + 2) * 2^-24.
  Inputs x(DType::fp32, 3, 65);
  for (double& value : x.in) value = rounded(DType::fp32, value + 1000);
  const PlainLayernorm expected = expected_forward(x, x.in);
  require_within(run_forward(x).rstd, expected.rstd, 2e-4, expected.rstd);
}

void compare_backward(DType dtype, size_t rows, size_t n) {
  INFO(name_of(dtype) << " " << rows << "x" << n);
  const Inputs x(dtype, rows, n);
  PlainLayernorm saved = expected_forward(x, x.in);
  for (double& value : saved.mean) value = rounded(x.sums(), value);
  for (double& value : saved.rstd) value = rounded(x.sums(), value);
  const PlainLayernormGradients got = run_backward(x, saved.mean, saved.rstd);
  const PlainLayernormGradients expected =
      cpu::plain_layernorm_backward(x.dout, x.in, x.weight, saved.mean, saved.rstd);
  // What the errors are relative to: the formula's terms with their absolute values. Those of
  // dweight and dbias are sums. From absolute values din is rstd * (|g| - the other terms), where
  // these should be added.
  Values distances = x.in, din_size(rows * n);
  for (size_t i = 0; i < distances.size(); ++i) distances[i] -= saved.mean[i / n];
  const PlainLayernormGradients sizes = cpu::plain_layernorm_backward(
      absolute(x.dout), absolute(distances), absolute(x.weight), Values(rows, 0), saved.rstd);
  for (size_t i = 0; i < din_size.size(); ++i) {
    const double g = std::abs(x.dout[i] * x.weight[i % n]);
    din_size[i] = 2 * saved.rstd[i / n] * g - sizes.din[i] + std::abs(x.start.din[i]);
  }
  // din: sums of n terms of at most four operations, then at most seven more. dweight: sums of
  // `rows` terms of three operations, added to the start. dbias: sums of `rows`.
  const double count = static_cast<double>(n), row_count = static_cast<double>(rows);
  require_within(dtype, got.din, sum_of(expected.din, x.start.din),
                 rounding_error(dtype, count + 11), din_size);
  require_within(got.dweight, sum_of(expected.dweight, x.start.dweight),
                 rounding_error(dtype, row_count + 4),
                 sum_of(sizes.dweight, absolute(x.start.dweight)));
  require_within(got.dbias, sum_of(expected.dbias, x.start.dbias),
                 rounding_error(dtype, row_count + 1),
                 sum_of(sizes.dbias, absolute(x.start.dbias)));
}

TEST_CASE("layernorm of any shape equals the plain one") {
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

TEST_CASE("layernorm_backward adds what the reference says") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : {1, 17, 63, 65, 130}) {
      for (size_t n : kWidths) compare_backward(dtype, rows, n);
    }
  }
}

// A GPU's warp keeps up to 3, 4 or 8 packs a lane in registers; 2056 elements of 16 bits are more.
TEST_CASE("layernorm of rows that fit registers, and of wider ones") {
  const OnDevice on = on_every_device();
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  for (size_t n : {264, 384, 776, 1032, 1600, 2048, 2056}) {
    compare_forward(dtype, 9, n);
    compare_backward(dtype, 9, n);
  }
}

TEST_CASE("layernorm_backward of more rows than a GPU's warps take at once") {
  const OnDevice on = on_every_device();
  for (DType dtype : {DType::bf16, DType::fp16}) compare_backward(dtype, 4500, 8);
}

TEST_CASE("layernorm_backward adds the gradient") {
  const OnDevice on = on_every_device();
  Inputs x(DType::fp64, 4, 7);
  const PlainLayernorm saved = run_forward(x);
  const PlainLayernormGradients got = run_backward(x, saved.mean, saved.rstd);
  const auto gradient = [&](Values Inputs::*input) {
    return numeric_gradient(x.*input, [&](const Values& values) {
      Inputs moved = x;
      moved.*input = values;
      return dot(run_forward(moved).out, x.dout);
    });
  };
  require_gradient(got.din, sum_of(gradient(&Inputs::in), x.start.din));
  require_gradient(got.dweight, sum_of(gradient(&Inputs::weight), x.start.dweight));
  require_gradient(got.dbias, sum_of(gradient(&Inputs::bias), x.start.dbias));
}

TEST_CASE(
    "layernorm_backward leaves out gradients that nobody wants, and the others keep their bits") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : {8, 304, 2056}) {
      const Inputs x(dtype, 130, n);
      const PlainLayernorm saved = run_forward(x);
      const PlainLayernormGradients all = run_backward(x, saved.mean, saved.rstd);
      for (bool with_weight : {false, true}) {
        for (bool with_bias : {false, true}) {
          INFO(name_of(dtype) << " " << n << ", weight " << with_weight << ", bias " << with_bias);
          const PlainLayernormGradients got =
              run_backward(x, saved.mean, saved.rstd, with_weight, with_bias);
          CHECK(got.din == all.din);
          CHECK(got.dweight == (with_weight ? all.dweight : x.start.dweight));
          CHECK(got.dbias == (with_bias ? all.dbias : x.start.dbias));
        }
      }
    }
  }
}

TEST_CASE("layernorm gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Inputs x(dtype, 130, 304);
    const PlainLayernorm saved = run_forward(x);
    require_same_for_any_threads([&] {
      const PlainLayernorm f = run_forward(x);
      return joined(f.out, f.mean, f.rstd);
    });
    require_same_for_any_threads([&] {
      const PlainLayernormGradients b = run_backward(x, saved.mean, saved.rstd);
      return joined(b.din, b.dweight, b.dbias);
    });
  }
}

}  // namespace
}  // namespace ladder
