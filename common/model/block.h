// One transformer block: two sublayers on the residual stream [Radford19, pre-norm].
//   middle = in + attention(layernorm_1(in) Wa + ba) Wp + bp
//   out    = middle + gelu(layernorm_2(middle) Wf + bf) Wm + bm
// A micro-batch has B sequences of T tokens, which are R = B T rows of C elements (the hidden
// size). Attention has NH heads. Each of N tensor-parallel ranks has NH / N of the heads: C / N
// columns of each of q, k, v and of the attention's output. Of the F columns of the inner layer it
// has F / N.
// The residual stream has n rows on this rank: all R, or R / N of them if N ranks split it by
// tokens (sequence parallelism).
#pragma once

#include <array>
#include <bitset>

#include "common/model/context_parallel.h"
#include "common/model/layout.h"
#include "common/model/tensor_parallel.h"

namespace ladder {

// The index of each parameter in a transformer block's unit.
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

// The index of each tensor that forward saves for backward, in the order in which forward computes
// them. block_activation_specs() in activations.h has their shapes.
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

// The steps of a transformer block's forward, in order. A layernorm computes its output, mean and
// rstd, attention its output and logsumexp; each other step computes the tensor of its name.
struct BlockStep {
  enum Index : size_t { ln_1, qkv, attention, middle, ln_2, fc, gelu, out, kCount };
};
// A set of steps.
using BlockSteps = std::bitset<BlockStep::kCount>;
inline constexpr BlockSteps kAllBlockSteps = (1U << BlockStep::kCount) - 1;
// The steps of a block that has experts: those before the MLP.
inline constexpr BlockSteps kStepsBeforeMlp = (1U << BlockStep::fc) - 1;
// The steps that read no weights.
inline constexpr BlockSteps kStepsWithoutWeights =
    1U << BlockStep::attention | 1U << BlockStep::gelu;

// Memory that all transformer blocks use, one after the other.
struct BlockWorkspace {
  TensorView narrow;    // (R, C) in the compute dtype
  TensorView gathered;  // (R, C) in the compute dtype if the residual stream is split; else empty
  TensorView wide;      // (R, max(F, 3 C) / N) in the compute dtype
  TensorView row_dot;   // (B, NH / N, T) in the accumulation dtype, for attention_backward
};

// Computes `activations` from `in` (n, C), the residual stream before the block: those of the given
// steps. What these steps read of the other steps must be there. The same `in` gives the same bits
// each time. Asynchronous on the stream.
void block_forward(Stream& stream, const BlockActivations& activations, ConstTensorView in,
                   const ConstUnitView& weights, const BlockWorkspace& workspace,
                   const TensorParallel& tensor, const ContextParallel& context,
                   BlockSteps steps = kAllBlockSteps);

// Turns d_residual (n, C) from the gradient with respect to the block's output into that with
// respect to its input, and adds the parameters' gradients to `gradients`. `activations` and `in`
// are those of forward; `out` is not read. If the block has no MLP, workspace.narrow must be the
// gradient with respect to ln_2 (R, C). Asynchronous on the stream.
void block_backward(Stream& stream, TensorView d_residual, const UnitView& gradients,
                    const BlockActivations& activations, ConstTensorView in,
                    const ConstUnitView& weights, const BlockWorkspace& workspace,
                    const TensorParallel& tensor, const ContextParallel& context,
                    bool has_mlp = true);

// Does the same in two halves, with the same bits. The first half turns d_residual into the
// gradient with respect to the block's input, which the block before waits for, and adds the
// gradients of the layernorms' parameters. The second half, which may run any time later, adds
// those of the linear layers. For it the first half writes the gradients of the linear layers'
// outputs over activations that backward has used up: `out`, `fc`, `middle` and `qkv`. So the
// halves need no memory of their own, but a micro-batch's activations stay in use until the second
// half. If ranks split the rows of the residual stream, both halves gather the rows of the two
// gradients that are split, since there is no room to keep them. [Qi23]
void block_backward_input(Stream& stream, TensorView d_residual, const UnitView& gradients,
                          const BlockActivations& activations, ConstTensorView in,
                          const ConstUnitView& weights, const BlockWorkspace& workspace,
                          const TensorParallel& tensor, const ContextParallel& context);
void block_backward_weight(Stream& stream, const UnitView& gradients,
                           const BlockActivations& activations, const BlockWorkspace& workspace,
                           const TensorParallel& tensor);

}  // namespace ladder
