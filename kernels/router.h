// The router of a mixture of experts: it gives each token a probability for every expert and
// chooses the k most probable ones. [Shazeer17, section 2.1; Fedus21 Switch, section 2]
// Letters: B sequences of T tokens, R = B T rows (tokens), E experts, k of which a token goes to.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// Overwrites logits (R, E) with their softmax, row by row: p = exp(logits - logsumexp).
//   probabilities (R, E) in/out, fp32 or fp64; logsumexp (R) out
//   experts (R, k) int32 out: the experts with the largest probabilities, the largest first; of two
//   equal ones the first comes first
//   weights (R, k) out: for k > 1 the probabilities of these experts, divided by their sum; for
//   k = 1 the probability itself, since 1 would have no gradient
void router_forward(Stream& stream, TensorView probabilities, TensorView logsumexp,
                    TensorView experts, TensorView weights);

// Two losses that keep the router in order. They are means over tokens, so what each token adds to
// them does not depend on how tokens are divided among ranks.
//   balance   E sum over e of f_e P_e for each sequence [Fedus21, equation 4], where f_e is the
//             fraction of the sequence's T k choices that fell on expert e and P_e the mean of its
//             probability. It is 1 if both are uniform. f has no gradient.
//   z         logsumexp^2 for each token [Zoph22 ST-MoE, equation 5], which keeps logits small.
// The factors multiply each token's term.
struct RouterFactors {
  double balance = 0, z = 0;
};

// Computes the gradient with respect to the logits of
//   sum over r, j of dweights[r, j] weights[r, j]
//   + factors.balance * E * sum over r, e of f[b, e] p[r, e] + factors.z * sum over r of
//   logsumexp^2
// where b is the sequence of row r.
//   dlogits (R, E) out; probabilities (R, E), logsumexp (R), weights, dweights (R, k) in, in the
//   accumulation dtype; experts (R, k) int32 in; fractions f (B, E) in, in the accumulation dtype
void router_backward(Stream& stream, TensorView dlogits, ConstTensorView probabilities,
                     ConstTensorView logsumexp, ConstTensorView experts, ConstTensorView weights,
                     ConstTensorView dweights, ConstTensorView fractions, RouterFactors factors);

// Computes what each row adds to the losses, without factors, and the entropy of its probabilities.
//   statistics (3, R) out: E sum over e of f[b, e] p[r, e]; logsumexp^2; -sum over e of p ln p
//   probabilities (R, E), logsumexp (R), fractions (B, E) in, all fp32 or fp64
void router_statistics(Stream& stream, TensorView statistics, ConstTensorView probabilities,
                       ConstTensorView logsumexp, ConstTensorView fractions);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost router_forward_cost(ConstTensorView probabilities, ConstTensorView logsumexp,
                                ConstTensorView experts, ConstTensorView weights) {
  const double choices = number_of(experts.shape()[1]);
  return moving_cost((5 + choices) * number_of(probabilities.num_elements()), {probabilities},
                     {probabilities, logsumexp, experts, weights});
}
inline Cost router_backward_cost(ConstTensorView dlogits, ConstTensorView probabilities,
                                 ConstTensorView logsumexp, ConstTensorView experts,
                                 ConstTensorView weights, ConstTensorView fractions) {
  return moving_cost(9 * number_of(dlogits.num_elements()) + 5 * number_of(experts.num_elements()),
                     {probabilities, logsumexp, experts, weights, weights, fractions}, {dlogits});
}
inline Cost router_statistics_cost(ConstTensorView statistics, ConstTensorView probabilities,
                                   ConstTensorView logsumexp, ConstTensorView fractions) {
  return moving_cost(5 * number_of(probabilities.num_elements()),
                     {probabilities, logsumexp, fractions}, {statistics});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::router_forward) router_forward;
decltype(ladder::router_backward) router_backward;
decltype(ladder::router_statistics) router_statistics;
}  // namespace cpu

namespace cuda {
decltype(ladder::router_forward) router_forward;
decltype(ladder::router_backward) router_backward;
decltype(ladder::router_statistics) router_statistics;
}  // namespace cuda

inline void router_forward(Stream& stream, TensorView probabilities, TensorView logsumexp,
                           TensorView experts, TensorView weights) {
  const ArgumentCheck expect("router_forward", stream, "probabilities", probabilities, 2,
                             ArgumentCheck::kAccumulation);
  const size_t rows = probabilities.shape()[0];
  const size_t chosen = weights.shape().num_dims() == 2 ? weights.shape()[1] : 0;
  expect("logsumexp", logsumexp, {rows});
  expect("weights", weights, {rows, chosen});
  expect("experts", experts, DType::int32, {rows, chosen});
  check(chosen > 0 && chosen <= probabilities.shape()[1],
        "router_forward: a token cannot go to so many experts");
  run_body(expect, router_forward_cost(probabilities, logsumexp, experts, weights),
           cpu::router_forward, cuda::router_forward, stream, probabilities, logsumexp, experts,
           weights);
}

inline void router_backward(Stream& stream, TensorView dlogits, ConstTensorView probabilities,
                            ConstTensorView logsumexp, ConstTensorView experts,
                            ConstTensorView weights, ConstTensorView dweights,
                            ConstTensorView fractions, RouterFactors factors) {
  const ArgumentCheck expect("router_backward", stream, "dlogits", dlogits, 2);
  const size_t rows = dlogits.shape()[0], num_experts = dlogits.shape()[1];
  const size_t chosen = weights.shape().num_dims() == 2 ? weights.shape()[1] : 0;
  const size_t batch = fractions.shape().num_dims() == 2 ? fractions.shape()[0] : 0;
  expect.accumulated("probabilities", probabilities, {rows, num_experts});
  expect.accumulated("logsumexp", logsumexp, {rows});
  expect.accumulated("weights", weights, {rows, chosen});
  expect("experts", experts, DType::int32, {rows, chosen});
  expect.accumulated("dweights", dweights, {rows, chosen});
  expect.accumulated("fractions", fractions, {batch, num_experts});
  check(batch > 0 && rows % batch == 0, "router_backward: sequences of different lengths");
  run_body(expect,
           router_backward_cost(dlogits, probabilities, logsumexp, experts, weights, fractions),
           cpu::router_backward, cuda::router_backward, stream, dlogits, probabilities, logsumexp,
           experts, weights, dweights, fractions, factors);
}

inline void router_statistics(Stream& stream, TensorView statistics, ConstTensorView probabilities,
                              ConstTensorView logsumexp, ConstTensorView fractions) {
  const ArgumentCheck expect("router_statistics", stream, "probabilities", probabilities, 2,
                             ArgumentCheck::kAccumulation);
  const size_t rows = probabilities.shape()[0], num_experts = probabilities.shape()[1];
  const size_t batch = fractions.shape().num_dims() == 2 ? fractions.shape()[0] : 0;
  expect("statistics", statistics, {3, rows});
  expect("logsumexp", logsumexp, {rows});
  expect("fractions", fractions, {batch, num_experts});
  check(batch > 0 && rows % batch == 0, "router_statistics: sequences of different lengths");
  run_body(expect, router_statistics_cost(statistics, probabilities, logsumexp, fractions),
           cpu::router_statistics, cuda::router_statistics, stream, statistics, probabilities,
           logsumexp, fractions);
}

}  // namespace ladder
