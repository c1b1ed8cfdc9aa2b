#include "kernels/router.h"

#include "kernels/cuda/warp.h"
#include "kernels/router_row.h"

namespace ladder::cuda {
namespace {

template <class A>
__global__ void router_forward_kernel(A* p, A* logsumexp, int32_t* experts, A* weights, size_t rows,
                                      size_t num_experts, size_t chosen) {
  const size_t r = thread_index();
  if (r >= rows) return;
  route_row(p + r * num_experts, logsumexp[r], experts + r * chosen, weights + r * chosen,
            num_experts, chosen);
}

// `first` is the first row; a thread moves its pointers on to its own row.
template <class T, class A = Accumulate<T>>
__global__ void router_backward_kernel(T* dlogits, const A* logsumexp, RouterRow<A> first,
                                       size_t rows, size_t tokens) {
  const size_t r = thread_index();
  if (r >= rows) return;
  RouterRow<A> row = first;
  row.p += r * row.num_experts;
  row.logsumexp = logsumexp[r];
  row.experts += r * row.chosen;
  row.weights += r * row.chosen;
  row.dweights += r * row.chosen;
  row.fractions += r / tokens * row.num_experts;
  row.backward(dlogits + r * row.num_experts);
}

template <class A>
__global__ void router_statistics_kernel(A* statistics, const A* p, const A* logsumexp,
                                         const A* fractions, size_t rows, size_t num_experts,
                                         size_t tokens) {
  const size_t r = thread_index();
  if (r >= rows) return;
  const RouterStatistics<A> row(p + r * num_experts, logsumexp[r],
                                fractions + r / tokens * num_experts, num_experts);
  statistics[r] = row.balance;
  statistics[rows + r] = row.z;
  statistics[2 * rows + r] = row.entropy;
}

}  // namespace

void router_forward(Stream& stream, TensorView probabilities, TensorView logsumexp,
                    TensorView experts, TensorView weights) {
  const size_t rows = probabilities.shape()[0];
  dispatch_accumulation(probabilities.dtype(), [&](auto zero) {
    using A = decltype(zero);
    launch<router_forward_kernel<A>>(stream.native(), threads_for(rows), probabilities.as<A>(),
                                     logsumexp.as<A>(), experts.as<int32_t>(), weights.as<A>(),
                                     rows, probabilities.shape()[1], weights.shape()[1]);
  });
}

void router_backward(Stream& stream, TensorView dlogits, ConstTensorView probabilities,
                     ConstTensorView logsumexp, ConstTensorView experts, ConstTensorView weights,
                     ConstTensorView dweights, ConstTensorView fractions, RouterFactors factors) {
  const size_t rows = dlogits.shape()[0], n = dlogits.shape()[1];
  dispatch_float(dlogits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const RouterRow<A> first = {probabilities.as<A>(),
                                A{},
                                experts.as<int32_t>(),
                                weights.as<A>(),
                                dweights.as<A>(),
                                fractions.as<A>(),
                                static_cast<A>(factors.balance * static_cast<double>(n)),
                                static_cast<A>(factors.z),
                                n,
                                weights.shape()[1]};
    launch<router_backward_kernel<T>>(stream.native(), threads_for(rows), dlogits.as<T>(),
                                      logsumexp.as<A>(), first, rows, rows / fractions.shape()[0]);
  });
}

void router_statistics(Stream& stream, TensorView statistics, ConstTensorView probabilities,
                       ConstTensorView logsumexp, ConstTensorView fractions) {
  const size_t rows = probabilities.shape()[0];
  dispatch_accumulation(statistics.dtype(), [&](auto zero) {
    using A = decltype(zero);
    launch<router_statistics_kernel<A>>(stream.native(), threads_for(rows), statistics.as<A>(),
                                        probabilities.as<A>(), logsumexp.as<A>(), fractions.as<A>(),
                                        rows, probabilities.shape()[1],
                                        rows / fractions.shape()[0]);
  });
}

}  // namespace ladder::cuda
