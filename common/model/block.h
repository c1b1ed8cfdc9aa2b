// One transformer block: two sublayers on the residual stream [Radford19, pre-norm].
//   middle = in + attention(layernorm_1(in)) Wp + bp
//   out    = middle + gelu(layernorm_2(middle) Wf + bf) Wm + bm
// Letters: kernels/matmul.h; R = B T rows. With N tensor-parallel ranks a rank has NH / N of the
// heads, and C / N columns of each of q, k, v and the attention's output, 4 C / N of the inner
// layer.
#pragma once

#include <array>

#include "common/model/layout.h"
#include "common/model/tensor_parallel.h"

namespace ladder {

// Index of a parameter in a block's unit.
struct BlockParameter {
  enum Index : size_t {
    ln_1_weight,
    ln_1_bias,
    attn_weight,
    attn_bias,
    attn_proj_weight,
    attn_proj_bias,
    ln_2_weight,
    ln_2_bias,
    fc_weight,
    fc_bias,
    mlp_proj_weight,
    mlp_proj_bias,
  };
};

// Index of a tensor that forward computes and backward reads, in the order of forward. Their
// extents are in a table (activations.h).
struct BlockActivation {
  enum Index : size_t {
    ln_1,
    ln_1_mean,
    ln_1_rstd,
    qkv,
    logsumexp,
    attention,
    middle,
    ln_2,
    ln_2_mean,
    ln_2_rstd,
    fc,
    gelu,
    out,
    kCount,
  };
};
using BlockActivations = std::array<TensorView, BlockActivation::kCount>;

// Memory that every block uses in turn.
struct BlockWorkspace {
  TensorView narrow;   // (R, C)
  TensorView wide;     // (R, 4 C/N)
  TensorView row_dot;  // (B, NH/N, T)
};

// Fills all of `activations` from `in` (R, C). May be called again with the same `in`, for the same
// bits. Asynchronous on the stream.
void block_forward(Stream& stream, const BlockActivations& activations, ConstTensorView in,
                   const ConstUnitView& weights, const BlockWorkspace& workspace,
                   const TensorParallel& tensor);

// On entry d_residual (R, C) is the gradient with respect to out, on return that with respect to
// in. Adds the parameters' gradients to `gradients`. Asynchronous on the stream.
void block_backward(Stream& stream, TensorView d_residual, const UnitView& gradients,
                    const BlockActivations& activations, ConstTensorView in,
                    const ConstUnitView& weights, const BlockWorkspace& workspace,
                    const TensorParallel& tensor);

}  // namespace ladder
