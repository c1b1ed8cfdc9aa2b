#include "kernels/router.h"

#include "kernels/router_row.h"

namespace ladder::cpu {

void router_forward(Stream&, TensorView probabilities, TensorView logsumexp, TensorView experts,
                    TensorView weights) {
  const size_t rows = probabilities.shape()[0], n = probabilities.shape()[1];
  const size_t k = weights.shape()[1];
  dispatch_accumulation(probabilities.dtype(), [&](auto zero) {
    using A = decltype(zero);
    A *const p = probabilities.as<A>(), *const lse = logsumexp.as<A>(), *const w = weights.as<A>();
    int32_t* const chosen = experts.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      route_row(p + r * n, lse[r], chosen + r * k, w + r * k, n, k);
    }
  });
}

void router_backward(Stream&, TensorView dlogits, ConstTensorView probabilities,
                     ConstTensorView logsumexp, ConstTensorView experts, ConstTensorView weights,
                     ConstTensorView dweights, ConstTensorView fractions, RouterFactors factors) {
  const size_t rows = dlogits.shape()[0], n = dlogits.shape()[1], k = weights.shape()[1];
  const size_t tokens = rows / fractions.shape()[0];
  dispatch_float(dlogits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const d = dlogits.as<T>();
    const A *const p = probabilities.as<A>(), *const lse = logsumexp.as<A>(),
                   *const w = weights.as<A>(), *const dw = dweights.as<A>(),
                   *const f = fractions.as<A>();
    const int32_t* const chosen = experts.as<int32_t>();
    const A balance = static_cast<A>(factors.balance * static_cast<double>(n));
    const A z = static_cast<A>(factors.z);
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const RouterRow<A> row = {
          p + r * n, lse[r], chosen + r * k, w + r * k, dw + r * k, f + r / tokens * n, balance, z,
          n,         k};
      row.backward(d + r * n);
    }
  });
}

void router_statistics(Stream&, TensorView statistics, ConstTensorView probabilities,
                       ConstTensorView logsumexp, ConstTensorView fractions) {
  const size_t rows = probabilities.shape()[0], n = probabilities.shape()[1];
  const size_t tokens = rows / fractions.shape()[0];
  dispatch_accumulation(statistics.dtype(), [&](auto zero) {
    using A = decltype(zero);
    A* const s = statistics.as<A>();
    const A *const p = probabilities.as<A>(), *const lse = logsumexp.as<A>(),
                   *const f = fractions.as<A>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const RouterStatistics<A> row(p + r * n, lse[r], f + r / tokens * n, n);
      s[r] = row.balance;
      s[rows + r] = row.z;
      s[2 * rows + r] = row.entropy;
    }
  });
}

}  // namespace ladder::cpu
