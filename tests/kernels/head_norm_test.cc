#include "kernels/head_norm.h"

#include "kernels/cpu/plain_rmsnorm.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

constexpr double kEpsilon = 1e-5;

// A row has `before` heads, then `heads` that are normed, then `after` columns, which are no whole
// head.
struct Case {
  DType dtype;
  size_t rows, head_size, before, heads, after;

  DType sums() const { return accumulation_dtype(dtype); }
  size_t columns() const { return (before + heads) * head_size + after; }
  size_t num_heads() const { return rows * heads; }
  HeadRange range() const { return {before, heads}; }
  Values values(const char* name) const { return random_values(dtype, rows * columns(), name); }
  Values weight() const { return random_values(dtype, head_size, "weight"); }

  // Returns the heads of a matrix one after the other, and the matrix with others in their place.
  Values heads_of(const Values& x) const {
    Values all;
    for_each([&](size_t, size_t at) { all.push_back(x[at]); });
    return all;
  }
  Values with_heads(Values x, const Values& all) const {
    for_each([&](size_t i, size_t at) { x[at] = all[i]; });
    return x;
  }
  template <class Body>
  void for_each(Body body) const {
    for (size_t i = 0; i < num_heads() * head_size; ++i) {
      const size_t row = i / (heads * head_size), column = i % (heads * head_size);
      body(i, row * columns() + before * head_size + column);
    }
  }
};

struct Normed {
  Values x, before, rstd;
};

Normed run_forward(const Case& c, const Values& in, const Values& weight,
                   double epsilon = kEpsilon) {
  const Array x(c.dtype, {c.rows, c.columns()}, in), rstd(c.sums(), {c.rows, c.heads});
  const Array before(c.dtype, {c.rows, c.heads * c.head_size});
  head_norm_forward(stream(), x, before, rstd, c.range(), Array(c.dtype, {c.head_size}, weight),
                    epsilon);
  return {x.values(), before.values(), rstd.values()};
}

struct Gradients {
  Values dx, dweight;
};

// `before` and rstd as forward saves them.
Gradients run_backward(const Case& c, const Values& dout, const Values& before,
                       const Values& weight, const Values& rstd, bool with_weight = true) {
  const Array dx(c.dtype, {c.rows, c.columns()}, dout);
  const Array dweight(c.sums(), {c.head_size}, random_values(c.sums(), c.head_size, "dweight"));
  head_norm_backward(stream(), dx, with_weight ? TensorView(dweight) : TensorView(), c.range(),
                     Array(c.dtype, {c.rows, c.heads * c.head_size}, before),
                     Array(c.dtype, {c.head_size}, weight),
                     Array(c.sums(), {c.rows, c.heads}, rstd));
  return {dx.values(), dweight.values()};
}

Values absolute(Values values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

// A head is a row of RMSNorm, and what lies beside heads keeps its bits.
void compare(const Case& c) {
  INFO(name_of(c.dtype) << " " << c.rows << " rows, after " << c.before << " heads " << c.heads
                        << " of " << c.head_size << " and " << c.after << " columns");
  const Values in = c.values("x"), dout = c.values("dx"), weight = c.weight();
  const Values heads = c.heads_of(in), dheads = c.heads_of(dout);
  const Normed normed = run_forward(c, in, weight);
  const cpu::PlainRmsnorm expected = cpu::plain_rmsnorm_forward(heads, weight, kEpsilon);
  // The bounds are those of rmsnorm_test.cc, which says why; here nothing is added to.
  const double n = static_cast<double>(c.head_size), count = static_cast<double>(c.num_heads());
  require_same_bits(normed.before, heads);
  require_within(normed.rstd, expected.rstd, rounding_error(c.dtype, (n + 4) / 2 + 2),
                 expected.rstd);
  require_within(c.dtype, c.heads_of(normed.x), expected.out,
                 rounding_error(c.dtype, (n + 4) / 2 + 4), absolute(expected.out));
  require_same_bits(c.with_heads(normed.x, heads), in);

  Values rstd = expected.rstd;
  for (double& value : rstd) value = rounded(c.sums(), value);
  const Gradients got = run_backward(c, dout, heads, weight, rstd);
  const auto plain = cpu::plain_rmsnorm_backward(dheads, heads, weight, rstd);
  const auto sizes =
      cpu::plain_rmsnorm_backward(absolute(dheads), absolute(heads), absolute(weight), rstd);
  Values dx_size(dheads.size());
  for (size_t i = 0; i < dx_size.size(); ++i) {
    const double g = std::abs(dheads[i] * weight[i % c.head_size]);
    dx_size[i] = 2 * rstd[i / c.head_size] * g - sizes.din[i];
  }
  require_within(c.dtype, c.heads_of(got.dx), plain.din, rounding_error(c.dtype, n + 9), dx_size);
  require_same_bits(c.with_heads(got.dx, dheads), dout);
  const Values start = random_values(c.sums(), c.head_size, "dweight");
  require_within(got.dweight, sum_of(plain.dweight, start), rounding_error(c.dtype, count + 3),
                 sum_of(sizes.dweight, absolute(start)));
}

TEST_CASE("heads are normed one by one, wherever they lie in their rows") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t head_size : {1, 2, 6, 16, 64, 128, 130, 300}) {
      compare({dtype, 5, head_size, 0, 3, 0});
      compare({dtype, 3, head_size, 1, 2, 8});
      compare({dtype, 17, head_size, 2, 1, 3});
    }
  }
}

TEST_CASE("more heads than a GPU's warps take at once, and wide ones, of which it has fewer") {
  const OnDevice on = on_every_device();
  for (DType dtype : {DType::bf16, DType::fp32}) {
    compare({dtype, 2100, 4, 1, 4, 4});
    compare({dtype, 3, 3000, 1, 2, 0});
  }
}

TEST_CASE("epsilon stands under the root") {
  const OnDevice on = on_every_device();
  const Case c = {DType::fp64, 1, 2, 1, 2, 0};
  // The first of the two has the mean square 9, and 9 + 16 has the root 5.
  const Normed normed = run_forward(c, {7, 7, 3, -3, 0, 0}, {1, 2}, 16);
  CHECK(normed.rstd == Values{0.2, 0.25});
  CHECK(normed.before == Values{3, -3, 0, 0});
  require_within(normed.x, {7, 7, 0.6, -1.2, 0, 0}, rounding_error(c.dtype, 2),
                 {7, 7, 0.6, 1.2, 0, 0});
}

TEST_CASE("head_norm_backward is the gradient") {
  const OnDevice on = on_every_device();
  const Case c = {DType::fp64, 3, 6, 1, 2, 1};
  const Values x = c.values("x"), weight = c.weight(), dout = c.values("dx");
  const Normed normed = run_forward(c, x, weight);
  const Gradients got = run_backward(c, dout, normed.before, weight, normed.rstd);
  require_gradient(got.dx, numeric_gradient(x, [&](const Values& moved) {
                     return dot(run_forward(c, moved, weight).x, dout);
                   }));
  require_gradient(got.dweight, sum_of(numeric_gradient(weight,
                                                        [&](const Values& moved) {
                                                          return dot(run_forward(c, x, moved).x,
                                                                     dout);
                                                        }),
                                       random_values(c.sums(), c.head_size, "dweight")));
}

TEST_CASE("head_norm_backward leaves out dweight if nobody wants it, and dx keeps its bits") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Case c = {dtype, 70, 64, 1, 2, 0};
    const Values dout = c.values("dx"), weight = c.weight();
    const Normed normed = run_forward(c, c.values("x"), weight);
    const Gradients got = run_backward(c, dout, normed.before, weight, normed.rstd, false);
    CHECK(got.dx == run_backward(c, dout, normed.before, weight, normed.rstd).dx);
    CHECK(got.dweight == random_values(c.sums(), c.head_size, "dweight"));
  }
}

TEST_CASE("head_norm gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Case c = {dtype, 70, 40, 1, 2, 3};
    const Values in = c.values("x"), dout = c.values("dx"), weight = c.weight();
    const Normed normed = run_forward(c, in, weight);
    require_same_for_any_threads([&] { return run_forward(c, in, weight).x; });
    require_same_for_any_threads([&] { return run_forward(c, in, weight).rstd; });
    const auto backward = [&] { return run_backward(c, dout, normed.before, weight, normed.rstd); };
    require_same_for_any_threads([&] { return backward().dx; });
    require_same_for_any_threads([&] { return backward().dweight; });
  }
}

}  // namespace
}  // namespace ladder
