#include "kernels/norm.h"

#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/lanes.h"

namespace ladder::cpu {
namespace {

using Doubles = Lanes<double>::Vector;
constexpr size_t kLanes = Lanes<double>::kCount;
static_assert(kLanes == 8, "kernels/norm.h promises eight lanes");

template <class T>
Doubles widen(const T* from, size_t count) {
  Doubles wide{};
  for (size_t l = 0; l < count; ++l) wide[l] = static_cast<double>(from[l]);
  return wide;
}

// out = sum over i of term(in[i]), blocks in index order.
template <class Term>
void sum_in_blocks(TensorView out, TensorView workspace, ConstTensorView in, Term term) {
  const size_t n = in.num_elements(), num_blocks = sum_workspace_elements(n);
  double* const partial = workspace.as<double>();
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = in.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t block = 0; block < num_blocks; ++block) {
      const size_t last = std::min(n, (block + 1) * kSumBlock);
      Doubles lanes{};
      size_t i = block * kSumBlock;
      for (; i + kLanes <= last; i += kLanes) lanes += term(widen(x + i, kLanes));
      if (i < last) lanes += term(widen(x + i, last - i));
      partial[block] = Lanes<double>::sum(lanes);
    }
  });
  double total = 0;
  for (size_t block = 0; block < num_blocks; ++block) total += partial[block];
  *out.as<double>() = total;
}

}  // namespace

void squared_norm(TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_blocks(out, workspace, in, [](const Doubles& x) { return x * x; });
}

void sum(TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_blocks(out, workspace, in, [](const Doubles& x) { return x; });
}

}  // namespace ladder::cpu
