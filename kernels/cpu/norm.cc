#include "kernels/norm.h"

#include <algorithm>

#include "kernels/cpu/lane_sum.h"

namespace ladder::cpu {
namespace {

using Doubles = Lanes<double>::Vector;
constexpr size_t kLanes = 8;     // of kernels/norm.h
constexpr size_t kAhead = 8192;  // bytes
using Partials = Partial<Plus, double, kLanes * sizeof(double)>;

Doubles widen(const double* from) { return Lanes<double>::load(from); }
Doubles widen(const float* from) {
  Doubles doubles;
  for (size_t l = 0; l < Lanes<double>::kCount; ++l) doubles[l] = double{from[l]};
  return doubles;
}

// Returns the sum of term over one tile of n <= kSumTile elements.
template <class T, class Term>
double sum_tile(const T* x, size_t n, Term term) {
  Partials partial;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    // The hardware alone asks memory too late for one core to keep it busy.
    __builtin_prefetch(reinterpret_cast<const char*>(x + i) + kAhead);
    partial.take([&](size_t at) { return term(widen(x + i + at)); });
  }
  if (i < n) {  // zeros fill up the last lanes: they add nothing
    T rest[kLanes] = {};
    std::copy(x + i, x + n, rest);
    partial.take([&](size_t at) { return term(widen(rest + at)); });
  }
  return partial.total();
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
