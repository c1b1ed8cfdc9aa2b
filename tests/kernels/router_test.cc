#include "kernels/router.h"

#include <set>

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

struct Sizes {
  size_t batch, tokens, experts, chosen;
  size_t rows() const { return batch * tokens; }
};
const Sizes kSizes[] = {{1, 1, 1, 1}, {2, 17, 8, 2}, {3, 21, 5, 1}, {5, 63, 65, 4}, {1, 300, 4, 4}};

// What router_forward gives for these logits.
struct Routed {
  Routed(DType dtype, const Sizes& s, const Values& logits) {
    const Array p(dtype, {s.rows(), s.experts}, logits), lse(dtype, {s.rows()}),
        chosen(DType::int32, {s.rows(), s.chosen}), w(dtype, {s.rows(), s.chosen});
    router_forward(stream(), p, lse, chosen, w);
    probabilities = p.values(), logsumexp = lse.values();
    experts = chosen.values(), weights = w.values();
  }
  Values probabilities, logsumexp, experts, weights;
};

Values fractions_of(const Sizes& s) {
  Values f = random_values(DType::fp32, s.batch * s.experts, "fractions", 0.2);
  for (double& x : f) x = std::abs(x);
  return f;
}

TEST_CASE("router_forward: softmax, the k largest, and weights that add up to 1 if k > 1") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (const Sizes& s : kSizes) {
      const Values logits = random_values(dtype, s.rows() * s.experts, "logits", 3);
      const Routed routed(dtype, s, logits);
      // exp of a difference below 30, whose rounding counts 30 times; E additions; a division.
      const double error = rounding_error(dtype, 40 + static_cast<double>(s.experts));
      for (size_t r = 0; r < s.rows(); ++r) {
        const double* const x = &logits[r * s.experts];
        const double* const p = &routed.probabilities[r * s.experts];
        double sum = 0;
        for (size_t e = 0; e < s.experts; ++e) sum += std::exp(x[e]);
        CHECK(std::abs(routed.logsumexp[r] - std::log(sum)) <= error * 20);
        for (size_t e = 0; e < s.experts; ++e) {
          REQUIRE(std::abs(p[e] - std::exp(x[e]) / sum) <= error * std::exp(x[e]) / sum);
        }
        // The order: by probability, and then by index.
        std::vector<size_t> order(s.experts);
        for (size_t e = 0; e < s.experts; ++e) order[e] = e;
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return p[a] > p[b]; });
        double total = 0;
        for (size_t j = 0; j < s.chosen; ++j) total += p[order[j]];
        for (size_t j = 0; j < s.chosen; ++j) {
          REQUIRE(routed.experts[r * s.chosen + j] == static_cast<double>(order[j]));
          const double weight = s.chosen > 1 ? p[order[j]] / total : p[order[j]];
          REQUIRE(std::abs(routed.weights[r * s.chosen + j] - weight) <=
                  rounding_error(dtype, 6) * weight);
        }
      }
      require_same_for_any_threads([&] { return Routed(dtype, s, logits).weights; });
    }
  }
}

TEST_CASE("router_forward: of equal experts the first comes first, and NaN chooses k experts too") {
  const OnDevice on = on_every_device();
  const Sizes s = {1, 3, 4, 3};
  const double nan = std::nan("");
  const Routed routed(DType::fp32, s, {1, 2, 2, 1, 7, 7, 7, 7, 0, nan, 3, nan});
  CHECK(Values(routed.experts.begin(), routed.experts.begin() + 6) == Values{1, 2, 0, 0, 1, 2});
  const std::set<double> last(routed.experts.begin() + 6, routed.experts.end());
  CHECK(last.size() == 3);
  CHECK((*last.begin() >= 0 && *last.rbegin() < 4));
}

// The sum whose gradient router_backward computes.
double objective(const Sizes& s, const Values& logits, const Values& dweights,
                 const Values& fractions, RouterFactors factors) {
  const Routed routed(DType::fp64, s, logits);
  double sum = dot(routed.weights, dweights);
  for (size_t r = 0; r < s.rows(); ++r) {
    sum += factors.z * routed.logsumexp[r] * routed.logsumexp[r];
    for (size_t e = 0; e < s.experts; ++e) {
      sum += factors.balance * static_cast<double>(s.experts) *
             fractions[r / s.tokens * s.experts + e] * routed.probabilities[r * s.experts + e];
    }
  }
  return sum;
}

Values backward_of(DType dtype, const Sizes& s, const Values& logits, const Values& dweights,
                   RouterFactors factors) {
  const DType full = accumulation_dtype(dtype);
  const Routed routed(full, s, logits);
  const Shape all = {s.rows(), s.experts}, choices = {s.rows(), s.chosen};
  const Array dlogits(dtype, all);
  router_backward(stream(), dlogits, Array(full, all, routed.probabilities),
                  Array(full, {s.rows()}, routed.logsumexp),
                  Array(DType::int32, choices, routed.experts),
                  Array(full, choices, routed.weights), Array(full, choices, dweights),
                  Array(full, {s.batch, s.experts}, fractions_of(s)), factors);
  return dlogits.values();
}

TEST_CASE("router_backward: the gradient by finite differences, of each term and of all") {
  const OnDevice on = on_every_device();
  for (const Sizes& s : {Sizes{2, 3, 5, 1}, Sizes{2, 3, 5, 2}, Sizes{1, 4, 3, 3}}) {
    const Values logits = random_values(DType::fp64, s.rows() * s.experts, "logits");
    for (const auto& [weight, balance, z] :
         {std::tuple{1.0, 0.0, 0.0}, {0.0, 0.7, 0.0}, {0.0, 0.0, 0.3}, {1.0, 0.7, 0.3}}) {
      Values dweights = random_values(DType::fp64, s.rows() * s.chosen, "dweights", 3);
      for (double& d : dweights) d *= weight;
      const RouterFactors factors = {balance, z};
      require_gradient(backward_of(DType::fp64, s, logits, dweights, factors),
                       numeric_gradient(logits, [&](const Values& x) {
                         return objective(s, x, dweights, fractions_of(s), factors);
                       }));
    }
  }
}

TEST_CASE("router_backward in other dtypes is near that in fp64") {
  const OnDevice on = on_every_device();
  const Sizes s = {3, 21, 8, 2};
  const Values logits = random_values(DType::fp32, s.rows() * s.experts, "logits");
  const Values dweights = random_values(DType::fp32, s.rows() * s.chosen, "dweights");
  const Values expected = backward_of(DType::fp64, s, logits, dweights, {0.5, 0.1});
  for (DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    // Terms of size 5 at most, which may cancel, after some 60 roundings each.
    require_within(dtype, backward_of(dtype, s, logits, dweights, {0.5, 0.1}), expected,
                   rounding_error(DType::fp32, 60), Values(expected.size(), 5));
  }
}

TEST_CASE("router_statistics: what each row adds to the losses, and its entropy") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (const Sizes& s : kSizes) {
      const Values logits = random_values(dtype, s.rows() * s.experts, "logits");
      const Routed routed(dtype, s, logits);
      const Values f = fractions_of(s);
      const Array statistics(dtype, {3, s.rows()});
      router_statistics(
          stream(), statistics, Array(dtype, {s.rows(), s.experts}, routed.probabilities),
          Array(dtype, {s.rows()}, routed.logsumexp), Array(dtype, {s.batch, s.experts}, f));
      Values expected(3 * s.rows());
      for (size_t r = 0; r < s.rows(); ++r) {
        const double lse = routed.logsumexp[r];
        expected[s.rows() + r] = lse * lse;
        for (size_t e = 0; e < s.experts; ++e) {
          const double p = routed.probabilities[r * s.experts + e];
          expected[r] += static_cast<double>(s.experts) * f[r / s.tokens * s.experts + e] * p;
          expected[2 * s.rows() + r] -= p * std::log(p);
        }
      }
      Values size(expected);
      for (double& x : size) x = std::abs(x) + 1e-3;  // an entropy near 0 is a difference
      require_within(statistics.values(), expected,
                     rounding_error(dtype, 10 + 2 * static_cast<double>(s.experts)), size);
    }
  }
}

}  // namespace
}  // namespace ladder
