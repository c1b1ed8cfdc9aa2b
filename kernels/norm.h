// Sums in a fixed order.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/kernel.h"

namespace ladder {

// The order of a sum, whatever the number of threads: elements are summed in tiles of kSumTile,
// the tiles in groups of kSumGroup, and the groups are added. Groups and the tiles of a group are
// added in index order. Within a tile, lane l of 8 sums elements l, l + 8, l + 16, ..., and the
// lanes are added as ((0+4) + (2+6)) + ((1+5) + (3+7)).
inline constexpr size_t kSumTile = 1024, kSumGroup = 1024;

// Returns the elements of fp64 workspace that sum needs for n elements.
constexpr size_t sum_workspace_elements(size_t n) { return (n + kSumTile - 1) / kSumTile; }
// Returns what squared_norms needs, of what each of its tensors needs: the CPU takes one tensor
// after the other, and a GPU all at once.
inline size_t add_workspace(size_t all, size_t one, DeviceType device) {
  return device == DeviceType::cpu ? std::max(all, one) : all + one;
}

// out[t] = sum over i of in[t][i]^2, for each tensor. Every element is converted to fp64 first. For
// fp32 a sum is finite exactly if every element is: squares of fp32 are below 2^256, and fp64 ends
// at 2^1024. A GPU needs three launches for 64 tensors, so give it those of the whole model at
// once.
//   out (number of tensors) fp64 out; in[t] (any) fp32 or fp64, all alike, in
//   workspace (at least the sum, or on the CPU the largest, of sum_workspace_elements(n) over the
//   tensors' n elements) fp64
void squared_norms(Stream& stream, TensorView out, TensorView workspace,
                   const std::vector<ConstTensorView>& in);

// out = sum over i of in[i].
//   out (1) fp64 out; workspace (at least sum_workspace_elements(n)) fp64; in (n) fp32 or fp64, in
void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost squared_norms_cost(const std::vector<ConstTensorView>& in) {
  Cost cost;
  for (const auto& tensor : in) {
    cost += moving_cost(2 * number_of(tensor.num_elements()), {tensor}, {});
  }
  return cost;
}
inline Cost sum_cost(ConstTensorView in) {
  return moving_cost(number_of(in.num_elements()), {in}, {});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::squared_norms) squared_norms;
decltype(ladder::sum) sum;
}  // namespace cpu

namespace cuda {
decltype(ladder::squared_norms) squared_norms;
decltype(ladder::sum) sum;
}  // namespace cuda

inline ArgumentCheck check_sums(const char* kernel, const Stream& stream,
                                const ConstTensorView& out, const ConstTensorView& workspace,
                                const std::vector<ConstTensorView>& in) {
  const ArgumentCheck expect(kernel, stream, "in", in.front(), 1, ArgumentCheck::kAccumulation);
  size_t needed = 0;
  for (const auto& tensor : in) {
    expect("in", tensor, {tensor.num_elements()});
    needed = add_workspace(needed, sum_workspace_elements(tensor.num_elements()), stream.device());
  }
  expect("out", out, DType::fp64, {in.size()});
  const size_t given = workspace.shape().num_dims() == 1 ? workspace.shape()[0] : 0;
  expect("workspace", workspace, DType::fp64, {std::max(needed, given)});
  return expect;
}

inline void squared_norms(Stream& stream, TensorView out, TensorView workspace,
                          const std::vector<ConstTensorView>& in) {
  if (in.empty()) return;
  const ArgumentCheck expect = check_sums("squared_norms", stream, out, workspace, in);
  run_body(expect, squared_norms_cost(in), cpu::squared_norms, cuda::squared_norms, stream, out,
           workspace, in);
}

inline void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  const ArgumentCheck expect = check_sums("sum", stream, out, workspace, {in});
  run_body(expect, sum_cost(in), cpu::sum, cuda::sum, stream, out, workspace, in);
}

}  // namespace ladder
