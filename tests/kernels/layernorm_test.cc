#include "kernels/layernorm.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

// Columns: odd ones, and some that are moved in packs where arrays are aligned.
constexpr size_t kWidths[] = {1, 17, 63, 64, 65, 300};

struct Forward {
  Values out, mean, rstd;
  Values size, mean_size;  // what the rounding errors of out and mean are relative to
};

Forward reference_forward(size_t rows, size_t n, const Values& in, const Values& weight,
                          const Values& bias) {
  Forward f{Values(rows * n), Values(rows), Values(rows), Values(rows * n), Values(rows)};
  for (size_t r = 0; r < rows; ++r) {
    const double* const x = in.data() + r * n;
    double mean = 0, size = 0, variance = 0;
    for (size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) size += std::abs(x[i]) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1 / std::sqrt(variance / static_cast<double>(n) + kLayernormEpsilon);
    for (size_t i = 0; i < n; ++i) {
      const double normalized = (x[i] - mean) * rstd;
      f.out[r * n + i] = normalized * weight[i] + bias[i];
      f.size[r * n + i] =
          (std::abs(normalized) + rstd * size) * std::abs(weight[i]) + std::abs(bias[i]);
    }
    f.mean[r] = mean;
    f.rstd[r] = rstd;
    f.mean_size[r] = size;
  }
  return f;
}

struct Backward {
  Values din, dweight, dbias;
  Values din_size, dweight_size, dbias_size;
};

// The header's formula; every sum comes with the sum of its terms' absolute values.
Backward reference_backward(size_t rows, size_t n, const Backward& start, const Values& dout,
                            const Values& in, const Values& weight, const Values& mean,
                            const Values& rstd) {
  Backward result = start;
  const auto absolute = [](Values values) {
    for (double& value : values) value = std::abs(value);
    return values;
  };
  result.din_size = absolute(start.din);
  result.dweight_size = absolute(start.dweight);
  result.dbias_size = absolute(start.dbias);
  for (size_t r = 0; r < rows; ++r) {
    double mean_g = 0, mean_gn = 0, size_g = 0, size_gn = 0;
    for (size_t i = 0; i < n; ++i) {
      const double normalized = (in[r * n + i] - mean[r]) * rstd[r];
      const double g = dout[r * n + i] * weight[i];
      mean_g += g / static_cast<double>(n);
      mean_gn += g * normalized / static_cast<double>(n);
      size_g += std::abs(g) / static_cast<double>(n);
      size_gn += std::abs(g * normalized) / static_cast<double>(n);
    }
    for (size_t i = 0; i < n; ++i) {
      const size_t at = r * n + i;
      const double normalized = (in[at] - mean[r]) * rstd[r], g = dout[at] * weight[i];
      result.din[at] += rstd[r] * (g - mean_g - normalized * mean_gn);
      result.din_size[at] += rstd[r] * (std::abs(g) + size_g + std::abs(normalized) * size_gn);
      result.dweight[i] += dout[at] * normalized;
      result.dweight_size[i] += std::abs(dout[at] * normalized);
      result.dbias[i] += dout[at];
      result.dbias_size[i] += std::abs(dout[at]);
    }
  }
  return result;
}

struct Inputs {
  Inputs(DType dtype_, size_t rows_, size_t n_)
      : dtype(dtype_),
        rows(rows_),
        n(n_),
        in(random_values(dtype, rows * n, "in")),
        weight(random_values(dtype, n, "weight")),
        bias(random_values(dtype, n, "bias")),
        dout(random_values(dtype, rows * n, "dout")),
        start{random_values(dtype, rows * n, "din"),
              random_values(sums(), n, "dweight"),
              random_values(sums(), n, "dbias"),
              {},
              {},
              {}} {}

  DType sums() const { return accumulation_dtype(dtype); }

  DType dtype;
  size_t rows, n;
  Values in, weight, bias, dout;
  Backward start;
};

Forward run_forward(const Inputs& x) {
  const Array out(x.dtype, {x.rows, x.n}), mean(x.sums(), {x.rows}), rstd(x.sums(), {x.rows});
  layernorm_forward(stream(), out, mean, rstd, Array(x.dtype, {x.rows, x.n}, x.in),
                    Array(x.dtype, {x.n}, x.weight), Array(x.dtype, {x.n}, x.bias));
  return {out.values(), mean.values(), rstd.values(), {}, {}};
}

Backward run_backward(const Inputs& x, const Values& mean, const Values& rstd) {
  const Array din(x.dtype, {x.rows, x.n}, x.start.din);
  const Array dweight(x.sums(), {x.n}, x.start.dweight), dbias(x.sums(), {x.n}, x.start.dbias);
  layernorm_backward(stream(), din, dweight, dbias, Array(x.dtype, {x.rows, x.n}, x.dout),
                     Array(x.dtype, {x.rows, x.n}, x.in), Array(x.dtype, {x.n}, x.weight),
                     Array(x.sums(), {x.rows}, mean), Array(x.sums(), {x.rows}, rstd));
  return {din.values(), dweight.values(), dbias.values(), {}, {}, {}};
}

Values joined(const Values& a, const Values& b, const Values& c) {
  Values all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

void compare_forward(DType dtype, size_t rows, size_t n) {
  INFO(name_of(dtype) << " " << rows << "x" << n);
  const Inputs x(dtype, rows, n);
  const Forward expected = reference_forward(rows, n, x.in, x.weight, x.bias);
  const Forward got = run_forward(x);
  const double count = static_cast<double>(n);
  // In whatever order n terms are added, none goes through more than n additions that round. The
  // mean: n additions and the multiplication by a rounded 1/n. The variance: that, a difference
  // squared (3) and the mean's own error (squared, so nothing), plus epsilon; the root halves it,
  // and two roundings follow. out: the sum of both relative errors and four more; the mean's error
  // enters as rstd * mean|x|, which is in `size`.
  require_within(got.mean, expected.mean, rounding_error(dtype, count + 2), expected.mean_size);
  require_within(got.rstd, expected.rstd, rounding_error(dtype, (count + 6) / 2 + 2),
                 expected.rstd);
  require_within(dtype, got.out, expected.out, rounding_error(dtype, 1.5 * count + 12),
                 expected.size);
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
  const Forward expected = reference_forward(x.rows, x.n, x.in, x.weight, x.bias);
  require_within(run_forward(x).rstd, expected.rstd, 2e-4, expected.rstd);
}

void compare_backward(DType dtype, size_t rows, size_t n) {
  INFO(name_of(dtype) << " " << rows << "x" << n);
  const Inputs x(dtype, rows, n);
  Forward saved = reference_forward(rows, n, x.in, x.weight, x.bias);
  for (double& value : saved.mean) value = rounded(x.sums(), value);
  for (double& value : saved.rstd) value = rounded(x.sums(), value);
  const Backward expected =
      reference_backward(rows, n, x.start, x.dout, x.in, x.weight, saved.mean, saved.rstd);
  const Backward got = run_backward(x, saved.mean, saved.rstd);
  // din: sums of n terms of at most four operations, then at most seven more. dweight: sums of
  // `rows` terms of three operations, added to the start. dbias: sums of `rows`.
  const double count = static_cast<double>(n), row_count = static_cast<double>(rows);
  require_within(dtype, got.din, expected.din, rounding_error(dtype, count + 11),
                 expected.din_size);
  require_within(got.dweight, expected.dweight, rounding_error(dtype, row_count + 4),
                 expected.dweight_size);
  require_within(got.dbias, expected.dbias, rounding_error(dtype, row_count + 1),
                 expected.dbias_size);
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
  const Forward saved = run_forward(x);
  const Backward got = run_backward(x, saved.mean, saved.rstd);
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

TEST_CASE("layernorm gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Inputs x(dtype, 130, 304);
    const Forward saved = run_forward(x);
    require_same_for_any_threads([&] {
      const Forward f = run_forward(x);
      return joined(f.out, f.mean, f.rstd);
    });
    require_same_for_any_threads([&] {
      const Backward b = run_backward(x, saved.mean, saved.rstd);
      return joined(b.din, b.dweight, b.dbias);
    });
  }
}

}  // namespace
}  // namespace ladder
