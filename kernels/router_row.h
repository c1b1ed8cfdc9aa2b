// What the router computes for one row (token), for every device. (The functions are constexpr so
// that device code may call them.) E is small, and so one thread computes a row.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace ladder {

// Returns whether `expert` is among the `count` experts.
constexpr bool is_among(size_t expert, const int32_t* experts, size_t count) {
  for (size_t j = 0; j < count; ++j) {
    if (static_cast<size_t>(experts[j]) == expert) return true;
  }
  return false;
}

// Overwrites the logits `p` of E experts with probabilities, and chooses k experts. Whatever `p`
// has, NaN too, these are k different experts.
template <class A>
constexpr void route_row(A* p, A& logsumexp, int32_t* experts, A* weights, size_t num_experts,
                         size_t chosen) {
  A largest = p[0], sum = 0;
  for (size_t e = 1; e < num_experts; ++e) largest = std::fmax(largest, p[e]);
  for (size_t e = 0; e < num_experts; ++e) sum += p[e] = std::exp(p[e] - largest);
  for (size_t e = 0; e < num_experts; ++e) p[e] /= sum;
  logsumexp = largest + std::log(sum);
  A total = 0;
  for (size_t j = 0; j < chosen; ++j) {
    size_t best = num_experts;
    for (size_t e = 0; e < num_experts; ++e) {
      if (is_among(e, experts, j)) continue;
      if (best == num_experts || p[e] > p[best]) best = e;
    }
    experts[j] = static_cast<int32_t>(best);
    total += weights[j] = p[best];
  }
  for (size_t j = 0; chosen > 1 && j < chosen; ++j) weights[j] /= total;
}

// One row of what router_backward reads.
template <class A>
struct RouterRow {
  const A* p;
  A logsumexp;
  const int32_t* experts;
  const A *weights, *dweights, *fractions;
  A balance, z;  // the factors, that of the balance loss times E
  size_t num_experts, chosen;

  // Returns the gradient with respect to the probability of an expert. `mean` is the sum over j of
  // dweights[j] weights[j].
  constexpr A dp(size_t expert, A mean) const {
    A sum = balance * fractions[expert];
    for (size_t j = 0; j < chosen; ++j) {
      if (static_cast<size_t>(experts[j]) != expert) continue;
      // weights[j] = p / total, and the total changes with every chosen p.
      sum += chosen == 1 ? dweights[j] : (dweights[j] - mean) * weights[j] / p[expert];
    }
    return sum;
  }
  template <class T>
  constexpr void backward(T* dlogits) const {
    A mean = 0, dot = 0;
    for (size_t j = 0; j < chosen; ++j) mean += dweights[j] * weights[j];
    for (size_t e = 0; e < num_experts; ++e) dot += p[e] * dp(e, mean);
    for (size_t e = 0; e < num_experts; ++e) {
      const A d = p[e] * (dp(e, mean) - dot + z * 2 * logsumexp);
      dlogits[e] = static_cast<T>(d);
    }
  }
};

// What a row adds to the losses, and its entropy.
template <class A>
struct RouterStatistics {
  A balance = 0, z = 0, entropy = 0;

  constexpr RouterStatistics(const A* p, A logsumexp, const A* fractions, size_t num_experts)
      : z(logsumexp * logsumexp) {
    for (size_t e = 0; e < num_experts; ++e) {
      balance += fractions[e] * p[e];
      if (p[e] > 0) entropy -= p[e] * std::log(p[e]);
    }
    balance *= static_cast<A>(num_experts);
  }
};

}  // namespace ladder
