#include "kernels/gelu.h"

#include "kernels/cpu/plain_gelu.h"
#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

Values run_forward(DType dtype, const Values& in) {
  const Array out(dtype, {in.size()});
  gelu_forward(stream(), out, Array(dtype, {in.size()}, in));
  return out.values();
}

Values run_backward(DType dtype, const Values& dout, const Values& in) {
  const Array din(dtype, {in.size()});
  gelu_backward(stream(), din, Array(dtype, {in.size()}, dout), Array(dtype, {in.size()}, in));
  return din.values();
}

TEST_CASE("gelu equals the plain one") {
  const OnDevice on = on_every_device();
  std::vector<size_t> sizes = {1, 17, 63, 65, 1023, 1024, 1025, 5000};
  for (double drawn : random_tokens(8, 3000, "sizes")) sizes.push_back(static_cast<size_t>(drawn));
  for (DType dtype : floats()) {
    for (size_t n : sizes) {
      INFO(name_of(dtype) << " " << n);
      const Values in = random_values(dtype, n, "in", 2), dout = random_values(dtype, n, "dout");
      const Values out = cpu::plain_gelu_forward(in), din = cpu::plain_gelu_backward(dout, in);
      Values out_size(n), din_size(n);
      for (size_t i = 0; i < n; ++i) {
        const double x = std::abs(in[i]), d = std::abs(dout[i]);
        const double slope = kGeluScale / 2 * (1 + 3 * kGeluCubic * x * x);  // of z
        // In units of 2^-24 (2^-53), with gate = (1 + tanh z) / 2 = 1 / (1 + exp(-2 z)): seven
        // roundings of 2 z move the gate by at most 7 * max(2 z gate (1 - gate)) < 1.6, exp's 4 ulp
        // by 8 gate (1 - gate) <= 2, the sum and the division by 2 gate <= 2. So the gate is off by
        // less than 5.6, absolutely, and gate (1 - gate) by less than 5.6 and two roundings of at
        // most 1/4. The other factors add at most 3 to out, relatively, and 6 to each part of din.
        out_size[i] = x * 5.6 + 3 * std::abs(out[i]);
        din_size[i] = d * (5.6 + 6 + 2 * x * slope * (5.6 + 0.5 + 6 * 0.25));
      }
      require_within(dtype, run_forward(dtype, in), out, rounding_error(dtype, 1), out_size);
      require_within(dtype, run_backward(dtype, dout, in), din, rounding_error(dtype, 1), din_size);
    }
  }
}

TEST_CASE("gelu is the identity far right of zero and zero far left of it") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    Values right = {20, 100, 1e4, 6e4}, left;
    for (double& x : right) left.push_back(-(x = rounded(dtype, x)));
    // At -20 both are below 20 * 200 * exp(-600) < 1e-250 in size.
    const Values zero(4, 0), tiny(4, 1e-250), dout = {1, -2, 3, 0.5};
    require_same_bits(run_forward(dtype, right), right);
    require_same_bits(run_backward(dtype, dout, right), dout);
    require_within(run_forward(dtype, left), zero, 1, tiny);
    require_within(run_backward(dtype, dout, left), zero, 1, tiny);
  }
}

TEST_CASE("gelu_backward is the gradient") {
  const OnDevice on = on_every_device();
  const DType dtype = DType::fp64;
  const Values in = random_values(dtype, 65, "in", 2), dout = random_values(dtype, 65, "dout");
  require_gradient(run_backward(dtype, dout, in), numeric_gradient(in, [&](const Values& x) {
                     return dot(run_forward(dtype, x), dout);
                   }));
}

TEST_CASE("gelu_backward may write over dout or in, and takes any shape") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Values in = random_values(dtype, 2 * 3 * 65, "in");
    const Values dout = random_values(dtype, in.size(), "dout");
    const Array x(dtype, {2, 3, 65}, in), d(dtype, {2, 3, 65}, dout);
    gelu_backward(stream(), d, d, x);
    require_same_bits(d.values(), run_backward(dtype, dout, in));
    const Array other(dtype, {2, 3, 65}, dout);
    gelu_backward(stream(), x, other, x);
    require_same_bits(x.values(), d.values());
  }
}

TEST_CASE("gelu gives the same bits for any number of threads, and keeps NaN") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Values in = random_values(dtype, 5000, "in"), dout = random_values(dtype, 5000, "dout");
    require_same_for_any_threads([&] { return run_forward(dtype, in); });
    require_same_for_any_threads([&] { return run_backward(dtype, dout, in); });
    Values spoiled = in;
    spoiled[77] = std::nan("");
    CHECK(std::isnan(run_forward(dtype, spoiled)[77]));
    CHECK(std::isnan(run_backward(dtype, dout, spoiled)[77]));
  }
}

}  // namespace
}  // namespace ladder
