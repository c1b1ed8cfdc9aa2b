#include "common/comm/cost_model.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

std::vector<CostSample> samples_of(double alpha, double beta) {
  std::vector<CostSample> samples;
  for (size_t bytes = 1024; bytes <= size_t{1} << 24; bytes *= 4) {
    samples.push_back({bytes, alpha + beta * static_cast<double>(bytes)});
  }
  return samples;
}

TEST_CASE("a cost that is linear is found again") {
  const LinearCost cost = fit_linear_cost(samples_of(20e-6, 0.5e-9));
  CHECK(cost.alpha == Approx(20e-6).epsilon(1e-9));
  CHECK(cost.beta == Approx(0.5e-9).epsilon(1e-9));
  CHECK(cost.seconds(1000) == Approx(20.5e-6));
}

TEST_CASE("errors count by their share: a large sample does not drown the small ones") {
  std::vector<CostSample> samples = samples_of(20e-6, 0.5e-9);
  samples.back().seconds *= 1.1;  // 800 us, many times the whole time of the small ones
  const LinearCost cost = fit_linear_cost(samples);
  CHECK(cost.alpha == Approx(20e-6).epsilon(0.03));
  CHECK(cost.beta == Approx(0.5e-9).epsilon(0.06));
}

TEST_CASE("neither latency nor the time for a byte is negative") {
  const LinearCost no_latency = fit_linear_cost({{1000, 1e-6}, {2000, 2.1e-6}});
  CHECK(no_latency.alpha == 0);
  CHECK(no_latency.beta == Approx(1.025e-9).epsilon(0.01));
  const LinearCost no_bytes = fit_linear_cost({{1000, 2e-6}, {2000, 1e-6}});
  CHECK(no_bytes.beta == 0);
  CHECK(no_bytes.alpha > 1e-6);
}

TEST_CASE("what cannot be fitted is refused") {
  CHECK_THROWS_AS(fit_linear_cost({}), Error);
  CHECK_THROWS_AS(fit_linear_cost({{1024, 1e-6}}), Error);
  CHECK_THROWS_AS(fit_linear_cost({{1024, 1e-6}, {4096, 0}}), Error);
}

}  // namespace
}  // namespace ladder
