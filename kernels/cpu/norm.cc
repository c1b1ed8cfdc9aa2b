#include "kernels/norm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/lanes.h"

namespace ladder::cpu {
namespace {

using Doubles = Lanes<double>::Vector;
constexpr size_t kLanes = Lanes<double>::kCount;
static_assert(2 * kLanes == 8, "kernels/norm.h promises eight lanes");

Doubles widen(const double* from) { return Lanes<double>::load(from); }
Doubles widen(const float* from) {
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
  Floats floats;
  std::memcpy(&floats, from, sizeof floats);
  return __builtin_convertvector(floats, Doubles);
}

// Returns the sum of term over one tile of n <= kSumTile elements.
template <class T, class Term>
double sum_tile(const T* x, size_t n, Term term) {
  Doubles low{}, high{};  // lanes 0 to 3 and 4 to 7
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    low += term(widen(x + i));
    high += term(widen(x + i + kLanes));
  }
  if (i < n) {  // zeros fill up the last lanes: they add nothing
    T rest[2 * kLanes] = {};
    std::copy(x + i, x + n, rest);
    low += term(widen(rest));
    high += term(widen(rest + kLanes));
  }
  return Lanes<double>::sum(low + high);
}

// out = sum over i of term(in[i])
template <class Term>
void sum_in_tiles(TensorView out, TensorView workspace, ConstTensorView in, Term term) {
  const size_t n = in.num_elements(), num_tiles = sum_workspace_elements(n);
  double* const partial = workspace.as<double>();
  dispatch_accumulation(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = in.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const size_t first = tile * kSumTile;
      partial[tile] = sum_tile(x + first, std::min(kSumTile, n - first), term);
    }
  });
  double total = 0;
  for (size_t first = 0; first < num_tiles; first += kSumGroup) {
    double group = 0;
    const size_t end = std::min(first + kSumGroup, num_tiles);
    for (size_t tile = first; tile < end; ++tile) group += partial[tile];
    total += group;
  }
  *out.as<double>() = total;
}

}  // namespace

void squared_norms(Stream&, TensorView out, TensorView workspace,
                   const std::vector<ConstTensorView>& in) {
  for (size_t t = 0; t < in.size(); ++t) {  // one after the other, so they may share the workspace
    sum_in_tiles(out.rows(t, 1), workspace, in[t], [](const Doubles& x) { return x * x; });
  }
}

void sum(Stream&, TensorView out, TensorView workspace, ConstTensorView in) {
  sum_in_tiles(out, workspace, in, [](const Doubles& x) { return x; });
}

}  // namespace ladder::cpu
