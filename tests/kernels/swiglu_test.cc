#include "kernels/swiglu.h"

#include "kernels/cpu/plain_swiglu.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

// Columns of the output: odd ones, and some that are moved in packs where arrays are aligned.
constexpr size_t kWidths[] = {1, 17, 63, 64, 65, 304};

Values run_forward(DType dtype, size_t n, const Values& in) {
  const size_t rows = in.size() / (2 * n);
  const Array out(dtype, {rows, n});
  swiglu_forward(stream(), out, Array(dtype, {rows, 2 * n}, in));
  return out.values();
}

Values run_backward(DType dtype, size_t n, const Values& dout, const Values& in) {
  const size_t rows = dout.size() / n;
  const Array din(dtype, {rows, 2 * n});
  swiglu_backward(stream(), din, Array(dtype, {rows, n}, dout), Array(dtype, {rows, 2 * n}, in));
  return din.values();
}

void compare(DType dtype, size_t rows, size_t n) {
  INFO(name_of(dtype) << " " << rows << "x" << n);
  const Values in = random_values(dtype, rows * 2 * n, "in", 2);
  const Values dout = random_values(dtype, rows * n, "dout");
  const Values out = cpu::plain_swiglu_forward(in, n),
               din = cpu::plain_swiglu_backward(dout, in, n);
  // In units of 2^-24 (2^-53): exp's 4 ulp are at most 8, relatively. Of 1 + exp(-g) that is a part
  // of 1 - s; with the sum and the division the sigmoid s is off by 8 (1 - s) + 2, relatively. The
  // products add one each.
  Values out_size(rows * n), din_size(rows * 2 * n);
  for (size_t i = 0; i < rows * n; ++i) {
    const size_t gate = i + i / n * n, up = gate + n;
    const double g = in[gate], s = 1 / (1 + std::exp(-g)), of_s = 8 * (1 - s) + 2;
    out_size[i] = (of_s + 2) * std::abs(out[i]);
    din_size[up] = (of_s + 2) * std::abs(din[up]);
    // dgate = dout * up * (s + silu * (1 - s)). What s is off by, 1 - s is too, and its own
    // rounding.
    const double second = std::abs(g) * s * (1 - s);
    din_size[gate] = std::abs(dout[i] * in[up]) * (of_s * s + second * (of_s + 3) +
                                                   std::abs(g) * s * of_s * s + 3 * (s + second));
  }
  require_within(dtype, run_forward(dtype, n, in), out, rounding_error(dtype, 1), out_size);
  require_within(dtype, run_backward(dtype, n, dout, in), din, rounding_error(dtype, 1), din_size);
}

TEST_CASE("swiglu equals the plain one") {
  const OnDevice on = on_every_device();
  const Values rows = random_tokens(5, 70, "rows"), widths = random_tokens(5, 300, "widths");
  for (DType dtype : floats()) {
    for (size_t r : kOddSizes) {
      for (size_t n : kWidths) compare(dtype, r, n);
    }
    for (size_t n : {1023, 1024, 1025, 5000}) compare(dtype, 2, n);
    for (size_t i = 0; i < rows.size(); ++i) {
      compare(dtype, static_cast<size_t>(rows[i]) + 1, static_cast<size_t>(widths[i]) + 1);
    }
  }
}

TEST_CASE("swiglu's gate is the identity far right of zero and zero far left of it") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Values up = {1, -2, 3, 0.5}, dout = {1, 0.5, -1, 1};
    Values right = {200, 1e3, 1e4, 6e4}, left, out, din(8);
    for (size_t i = 0; i < 4; ++i) {
      right[i] = rounded(dtype, right[i]);
      left.push_back(-right[i]);
      out.push_back(rounded(dtype, right[i] * up[i]));
      din[i] = dout[i] * up[i];
      din[4 + i] = rounded(dtype, dout[i] * right[i]);
    }
    right.insert(right.end(), up.begin(), up.end());
    left.insert(left.end(), up.begin(), up.end());
    require_same_bits(run_forward(dtype, 4, right), out);
    require_same_bits(run_backward(dtype, 4, dout, right), din);
    // At -200 all are below 6 * 200 * exp(-200) < 1e-80 in size.
    require_within(run_forward(dtype, 4, left), Values(4, 0), 1, Values(4, 1e-80));
    require_within(run_backward(dtype, 4, dout, left), Values(8, 0), 1, Values(8, 1e-80));
  }
}

TEST_CASE("swiglu_backward is the gradient") {
  const OnDevice on = on_every_device();
  const DType dtype = DType::fp64;
  const Values in = random_values(dtype, 3 * 2 * 17, "in", 2);
  const Values dout = random_values(dtype, 3 * 17, "dout");
  require_gradient(run_backward(dtype, 17, dout, in), numeric_gradient(in, [&](const Values& x) {
                     return dot(run_forward(dtype, 17, x), dout);
                   }));
}

TEST_CASE("swiglu_backward may write over in") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t n : {64, 65, 1030}) {
      const Values in = random_values(dtype, 3 * 2 * n, "in", 2);
      const Values dout = random_values(dtype, 3 * n, "dout");
      const Array x(dtype, {3, 2 * n}, in), d(dtype, {3, n}, dout);
      swiglu_backward(stream(), x, d, x);
      require_same_bits(x.values(), run_backward(dtype, n, dout, in));
      require_same_bits(d.values(), dout);
    }
  }
}

TEST_CASE("swiglu gives the same bits for any number of threads, and keeps NaN") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const size_t n = 300, spoiled_up = 2 * n + n + 7, spoiled_gate = 4 * n + 9;
    Values in = random_values(dtype, 7 * 2 * n, "in");
    const Values dout = random_values(dtype, 7 * n, "dout");
    require_same_for_any_threads([&] { return run_forward(dtype, n, in); });
    require_same_for_any_threads([&] { return run_backward(dtype, n, dout, in); });
    in[spoiled_up] = in[spoiled_gate] = std::nan("");
    const Values out = run_forward(dtype, n, in), din = run_backward(dtype, n, dout, in);
    CHECK(std::isnan(out[n + 7]));
    CHECK(std::isnan(out[2 * n + 9]));
    CHECK(std::isnan(din[spoiled_up - n]));  // the gate's gradient has `up` as a factor
    CHECK(std::isfinite(din[spoiled_up]));   // and the other has not
    CHECK(std::isnan(din[spoiled_gate]));
    CHECK(std::isnan(din[spoiled_gate + n]));
  }
}

}  // namespace
}  // namespace ladder
