// Sums with a fixed order. Rules: kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// Elements are summed in blocks of this many, and the blocks in index order, whatever the number of
// threads. Within a block lane l of 8 sums elements l, l + 8, l + 16, ... and the lanes are added
// as ((0+4) + (2+6)) + ((1+5) + (3+7)).
inline constexpr size_t kSumBlock = 1024;

// Elements of fp64 workspace that sum and squared_norm need for n elements.
constexpr size_t sum_workspace_elements(size_t n) { return (n + kSumBlock - 1) / kSumBlock; }

// out (1) fp64 = sum over i of in[i]^2, every element widened to fp64 first. Of fp32 it is finite
// exactly if every element is: squares of fp32 are below 2^256, fp64 ends at 2^1024.
//   in (n) a: x is fp32 or fp64; workspace (at least sum_workspace_elements(n)) fp64
void squared_norm(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in);

// out (1) fp64 = sum over i of in[i], every element widened to fp64 first. The same arguments.
void sum(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in);

}  // namespace ladder
