#include "common/model/block.h"

#include "common/model/linear.h"
#include "kernels/fused_matmul.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"

namespace ladder {
namespace {

using A = BlockActivation;
using P = BlockParameter;
using S = BlockStep;

// Returns (R, n) as (B, T, n). B and T are those of logsumexp (B, NH, T).
template <class View>
View by_sequence(View rows, const TensorView& logsumexp) {
  return rows.reshape({logsumexp.shape()[0], logsumexp.shape()[2], rows.shape()[1]});
}

// The end of a sublayer: out = residual + (in weight + bias). `partial` is memory for the product.
void add_sublayer(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView in,
                  ConstTensorView weight, ConstTensorView bias, TensorView partial,
                  const TensorParallel& tensor) {
  if (!tensor.is_split()) return matmul_residual(stream, out, in, weight, bias, residual);
  // The ranks sum their products before the bias is added, so that it counts once.
  const auto multiply = [&](const RowChunk& chunk) {
    linear_forward(stream, chunk.of(partial), chunk.of(in), weight);
  };
  const ConstTensorView sum = tensor.leave(stream, partial, multiply);
  add_residual(stream, out, residual, sum, bias);
}

// Returns the gradient with respect to ln_2. It is computed from that with respect to `out`.
ConstTensorView mlp_backward(Stream& stream, ConstTensorView d_residual, const UnitView& g,
                             const BlockActivations& a, const ConstUnitView& w,
                             const BlockWorkspace& workspace, const TensorParallel& tensor) {
  const TensorView narrow = workspace.narrow, room = workspace.gathered;
  const TensorView wide = workspace.wide.elements(0, a[A::fc].shape());
  const auto multiply = [&](const RowChunk& chunk, ConstTensorView d_rows) {
    matmul_gelu_backward(stream, chunk.of(wide), d_rows, w[P::mlp_proj_weight], chunk.of(a[A::fc]));
  };
  const ConstTensorView d_out = tensor.leave_backward(stream, d_residual, room, multiply);
  linear_backward_weight(stream, g[P::mlp_proj_weight], {}, d_out, a[A::gelu]);
  bias_backward(stream, g[P::mlp_proj_bias], d_residual);
  TensorParallel::Coming normed = tensor.enter_again(stream, a[A::ln_2], room);
  linear_backward_input(stream, narrow, wide, w[P::fc_weight]);
  TensorParallel::Coming d_normed = tensor.enter_backward(stream, narrow);
  normed.work.wait(stream);
  linear_backward_weight(stream, g[P::fc_weight], g[P::fc_bias], wide, normed.rows);
  d_normed.work.wait(stream);
  return d_normed.rows;
}

}  // namespace

void block_forward(Stream& stream, const BlockActivations& a, ConstTensorView in,
                   const ConstUnitView& w, const BlockWorkspace& workspace,
                   const TensorParallel& tensor, const ContextParallel& context, BlockSteps steps) {
  const TensorView logsumexp = a[A::logsumexp];
  const size_t num_rows = in.shape()[0];
  if (steps[S::ln_1]) {
    layernorm_forward(stream, tensor.own_rows(a[A::ln_1], num_rows), a[A::ln_1_mean],
                      a[A::ln_1_rstd], in, w[P::ln_1_weight], w[P::ln_1_bias]);
  }
  if (steps[S::qkv]) {
    const auto multiply = [&](const RowChunk& chunk, ConstTensorView rows) {
      linear_forward(stream, chunk.of(a[A::qkv]), rows, w[P::attn_weight], w[P::attn_bias]);
    };
    tensor.enter(stream, a[A::ln_1], workspace.narrow, multiply);
  }
  if (steps[S::attention]) {
    context.forward(stream, by_sequence(a[A::attention], logsumexp), logsumexp,
                    by_sequence(a[A::qkv], logsumexp));
  }
  if (steps[S::middle]) {
    add_sublayer(stream, a[A::middle], in, a[A::attention], w[P::attn_proj_weight],
                 w[P::attn_proj_bias], workspace.narrow, tensor);
  }

  if (steps[S::ln_2]) {
    layernorm_forward(stream, tensor.own_rows(a[A::ln_2], num_rows), a[A::ln_2_mean],
                      a[A::ln_2_rstd], a[A::middle], w[P::ln_2_weight], w[P::ln_2_bias]);
  }
  if (steps[S::fc]) {
    const auto multiply = [&](const RowChunk& chunk, ConstTensorView rows) {
      const TensorView fc = chunk.of(a[A::fc]);
      if (!steps[S::gelu]) return linear_forward(stream, fc, rows, w[P::fc_weight], w[P::fc_bias]);
      matmul_bias_gelu(stream, chunk.of(a[A::gelu]), fc, rows, w[P::fc_weight], w[P::fc_bias]);
    };
    tensor.enter(stream, a[A::ln_2], workspace.narrow, multiply);
  } else if (steps[S::gelu]) {
    gelu_forward(stream, a[A::gelu], a[A::fc]);
  }
  if (steps[S::out]) {
    add_sublayer(stream, a[A::out], a[A::middle], a[A::gelu], w[P::mlp_proj_weight],
                 w[P::mlp_proj_bias], workspace.narrow, tensor);
  }
}

void block_backward(Stream& stream, TensorView d_residual, const UnitView& g,
                    const BlockActivations& a, ConstTensorView in, const ConstUnitView& w,
                    const BlockWorkspace& workspace, const TensorParallel& tensor,
                    const ContextParallel& context, bool has_mlp) {
  const TensorView narrow = workspace.narrow, room = workspace.gathered;
  const TensorView logsumexp = a[A::logsumexp];
  const ConstTensorView d_ln_2 =
      has_mlp ? mlp_backward(stream, d_residual, g, a, w, workspace, tensor) : narrow;
  layernorm_backward(stream, d_residual, g[P::ln_2_weight], g[P::ln_2_bias], d_ln_2, a[A::middle],
                     w[P::ln_2_weight], a[A::ln_2_mean], a[A::ln_2_rstd]);

  const TensorView dqkv = workspace.wide.elements(0, a[A::qkv].shape());
  const TensorView dattention = narrow.elements(0, a[A::attention].shape());
  const auto multiply = [&](const RowChunk& chunk, ConstTensorView d_rows) {
    linear_backward_input(stream, chunk.of(dattention), d_rows, w[P::attn_proj_weight]);
  };
  const ConstTensorView d_middle = tensor.leave_backward(stream, d_residual, room, multiply);
  linear_backward_weight(stream, g[P::attn_proj_weight], {}, d_middle, a[A::attention]);
  bias_backward(stream, g[P::attn_proj_bias], d_residual);
  TensorParallel::Coming normed = tensor.enter_again(stream, a[A::ln_1], room);
  context.backward(stream, by_sequence(dqkv, logsumexp), workspace.row_dot,
                   by_sequence(dattention, logsumexp), by_sequence(a[A::attention], logsumexp),
                   logsumexp, by_sequence(a[A::qkv], logsumexp));
  linear_backward_input(stream, narrow, dqkv, w[P::attn_weight]);
  TensorParallel::Coming d_normed = tensor.enter_backward(stream, narrow);
  normed.work.wait(stream);
  linear_backward_weight(stream, g[P::attn_weight], g[P::attn_bias], dqkv, normed.rows);
  d_normed.work.wait(stream);
  layernorm_backward(stream, d_residual, g[P::ln_1_weight], g[P::ln_1_bias], d_normed.rows, in,
                     w[P::ln_1_weight], a[A::ln_1_mean], a[A::ln_1_rstd]);
}

void block_backward_input(Stream& stream, TensorView d_residual, const UnitView& g,
                          const BlockActivations& a, ConstTensorView in, const ConstUnitView& w,
                          const BlockWorkspace& workspace, const TensorParallel& tensor,
                          const ContextParallel& context) {
  const TensorView narrow = workspace.narrow, room = workspace.gathered;
  const TensorView wide = workspace.wide.elements(0, a[A::fc].shape());
  const TensorView logsumexp = a[A::logsumexp];
  copy(stream, a[A::out], d_residual);  // the next block has read it in its own backward
  const auto multiply_mlp = [&](const RowChunk& chunk, ConstTensorView d_rows) {
    linear_backward_input(stream, chunk.of(wide), d_rows, w[P::mlp_proj_weight]);
  };
  tensor.leave_backward(stream, d_residual, room, multiply_mlp);
  gelu_backward(stream, a[A::fc], wide, a[A::fc]);
  linear_backward_input(stream, narrow, a[A::fc], w[P::fc_weight]);
  TensorParallel::Coming d_ln_2 = tensor.enter_backward(stream, narrow);
  d_ln_2.work.wait(stream);
  layernorm_backward(stream, d_residual, g[P::ln_2_weight], g[P::ln_2_bias], d_ln_2.rows,
                     a[A::middle], w[P::ln_2_weight], a[A::ln_2_mean], a[A::ln_2_rstd]);

  copy(stream, a[A::middle], d_residual);
  const TensorView dqkv = workspace.wide.elements(0, a[A::qkv].shape());
  const TensorView dattention = narrow.elements(0, a[A::attention].shape());
  const auto multiply_attention = [&](const RowChunk& chunk, ConstTensorView d_rows) {
    linear_backward_input(stream, chunk.of(dattention), d_rows, w[P::attn_proj_weight]);
  };
  tensor.leave_backward(stream, d_residual, room, multiply_attention);
  context.backward(stream, by_sequence(dqkv, logsumexp), workspace.row_dot,
                   by_sequence(dattention, logsumexp), by_sequence(a[A::attention], logsumexp),
                   logsumexp, by_sequence(a[A::qkv], logsumexp));
  copy(stream, a[A::qkv], dqkv);
  linear_backward_input(stream, narrow, dqkv, w[P::attn_weight]);
  TensorParallel::Coming d_ln_1 = tensor.enter_backward(stream, narrow);
  d_ln_1.work.wait(stream);
  layernorm_backward(stream, d_residual, g[P::ln_1_weight], g[P::ln_1_bias], d_ln_1.rows, in,
                     w[P::ln_1_weight], a[A::ln_1_mean], a[A::ln_1_rstd]);
}

void block_backward_weight(Stream& stream, const UnitView& g, const BlockActivations& a,
                           const BlockWorkspace& workspace, const TensorParallel& tensor) {
  // A layer whose weight is split by rows: its bias is added to the rows of this rank alone.
  const auto add_leaving = [&](P::Index weight, P::Index bias, A::Index d_out, A::Index in) {
    const ConstTensorView d_all =
        tensor.leave_backward(stream, a[d_out], workspace.gathered, kNoProduct);
    linear_backward_weight(stream, g[weight], {}, d_all, a[in]);
    bias_backward(stream, g[bias], a[d_out]);
  };
  // A layer whose weight is split by columns.
  const auto add_entering = [&](P::Index weight, P::Index bias, A::Index d_out, A::Index in) {
    TensorParallel::Coming rows = tensor.enter_again(stream, a[in], workspace.gathered);
    rows.work.wait(stream);
    linear_backward_weight(stream, g[weight], g[bias], a[d_out], rows.rows);
  };
  add_leaving(P::mlp_proj_weight, P::mlp_proj_bias, A::out, A::gelu);
  add_entering(P::fc_weight, P::fc_bias, A::fc, A::ln_2);
  add_leaving(P::attn_proj_weight, P::attn_proj_bias, A::middle, A::attention);
  add_entering(P::attn_weight, P::attn_bias, A::qkv, A::ln_1);
}

}  // namespace ladder
