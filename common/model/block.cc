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

// Computes workspace.narrow, the gradient with respect to ln_2, from that with respect to `out`.
void mlp_backward(Stream& stream, ConstTensorView d_residual, const UnitView& g,
                  const BlockActivations& a, const ConstUnitView& w,
                  const BlockWorkspace& workspace, const TensorParallel& tensor) {
  const TensorView narrow = workspace.narrow, wide = workspace.wide, room = workspace.gathered;
  const ConstTensorView d_out = tensor.leave_backward(stream, d_residual, room);
  matmul_gelu_backward(stream, wide, d_out, w[P::mlp_proj_weight], a[A::fc]);
  linear_backward_weight(stream, g[P::mlp_proj_weight], {}, d_out, a[A::gelu]);
  bias_backward(stream, g[P::mlp_proj_bias], d_residual);
  TensorParallel::Coming normed = tensor.enter_again(stream, a[A::ln_2], room);
  linear_backward_input(stream, narrow, wide, w[P::fc_weight]);
  Work sum = tensor.enter_backward(stream, narrow);
  normed.work.wait(stream);
  linear_backward_weight(stream, g[P::fc_weight], g[P::fc_bias], wide, normed.rows);
  sum.wait(stream);
}

}  // namespace

void block_forward(Stream& stream, const BlockActivations& a, ConstTensorView in,
                   const ConstUnitView& w, const BlockWorkspace& workspace,
                   const TensorParallel& tensor, const ContextParallel& context, BlockSteps steps) {
  // A sublayer's output without its bias, before tensor-parallel ranks sum it.
  const TensorView partial = workspace.narrow;
  const TensorView logsumexp = a[A::logsumexp];
  const size_t num_rows = in.shape()[0];
  if (steps[S::ln_1]) {
    layernorm_forward(stream, tensor.own_rows(a[A::ln_1], num_rows), a[A::ln_1_mean],
                      a[A::ln_1_rstd], in, w[P::ln_1_weight], w[P::ln_1_bias]);
  }
  if (steps[S::qkv]) {
    linear_forward(stream, a[A::qkv], tensor.enter(stream, a[A::ln_1], workspace.narrow),
                   w[P::attn_weight], w[P::attn_bias]);
  }
  if (steps[S::attention]) {
    context.forward(stream, by_sequence(a[A::attention], logsumexp), logsumexp,
                    by_sequence(a[A::qkv], logsumexp));
  }
  if (steps[S::middle]) {
    linear_forward(stream, partial, a[A::attention], w[P::attn_proj_weight]);
    add_residual(stream, a[A::middle], in, tensor.leave(stream, partial), w[P::attn_proj_bias]);
  }

  if (steps[S::ln_2]) {
    layernorm_forward(stream, tensor.own_rows(a[A::ln_2], num_rows), a[A::ln_2_mean],
                      a[A::ln_2_rstd], a[A::middle], w[P::ln_2_weight], w[P::ln_2_bias]);
  }
  if (steps[S::fc]) {
    const ConstTensorView normed = tensor.enter(stream, a[A::ln_2], workspace.narrow);
    if (steps[S::gelu]) {
      matmul_bias_gelu(stream, a[A::gelu], a[A::fc], normed, w[P::fc_weight], w[P::fc_bias]);
    } else {
      linear_forward(stream, a[A::fc], normed, w[P::fc_weight], w[P::fc_bias]);
    }
  } else if (steps[S::gelu]) {
    gelu_forward(stream, a[A::gelu], a[A::fc]);
  }
  if (steps[S::out]) {
    linear_forward(stream, partial, a[A::gelu], w[P::mlp_proj_weight]);
    add_residual(stream, a[A::out], a[A::middle], tensor.leave(stream, partial),
                 w[P::mlp_proj_bias]);
  }
}

void block_backward(Stream& stream, TensorView d_residual, const UnitView& g,
                    const BlockActivations& a, ConstTensorView in, const ConstUnitView& w,
                    const BlockWorkspace& workspace, const TensorParallel& tensor,
                    const ContextParallel& context, bool has_mlp) {
  const TensorView narrow = workspace.narrow, room = workspace.gathered;
  const TensorView d_norm = tensor.own_rows(narrow, d_residual.shape()[0]);
  const TensorView logsumexp = a[A::logsumexp];
  if (has_mlp) mlp_backward(stream, d_residual, g, a, w, workspace, tensor);
  layernorm_backward(stream, d_residual, g[P::ln_2_weight], g[P::ln_2_bias], d_norm, a[A::middle],
                     w[P::ln_2_weight], a[A::ln_2_mean], a[A::ln_2_rstd]);

  const TensorView dqkv = workspace.wide.elements(0, a[A::qkv].shape());
  const TensorView dattention = narrow.elements(0, a[A::attention].shape());
  const ConstTensorView d_middle = tensor.leave_backward(stream, d_residual, room);
  linear_backward_input(stream, dattention, d_middle, w[P::attn_proj_weight]);
  linear_backward_weight(stream, g[P::attn_proj_weight], {}, d_middle, a[A::attention]);
  bias_backward(stream, g[P::attn_proj_bias], d_residual);
  TensorParallel::Coming normed = tensor.enter_again(stream, a[A::ln_1], room);
  context.backward(stream, by_sequence(dqkv, logsumexp), workspace.row_dot,
                   by_sequence(dattention, logsumexp), by_sequence(a[A::attention], logsumexp),
                   logsumexp, by_sequence(a[A::qkv], logsumexp));
  linear_backward_input(stream, narrow, dqkv, w[P::attn_weight]);
  Work sum = tensor.enter_backward(stream, narrow);
  normed.work.wait(stream);
  linear_backward_weight(stream, g[P::attn_weight], g[P::attn_bias], dqkv, normed.rows);
  sum.wait(stream);
  layernorm_backward(stream, d_residual, g[P::ln_1_weight], g[P::ln_1_bias], d_norm, in,
                     w[P::ln_1_weight], a[A::ln_1_mean], a[A::ln_1_rstd]);
}

void block_backward_input(Stream& stream, TensorView d_residual, const UnitView& g,
                          const BlockActivations& a, ConstTensorView in, const ConstUnitView& w,
                          const BlockWorkspace& workspace, const TensorParallel& tensor,
                          const ContextParallel& context) {
  const TensorView narrow = workspace.narrow, wide = workspace.wide, room = workspace.gathered;
  const TensorView d_norm = tensor.own_rows(narrow, d_residual.shape()[0]);
  const TensorView logsumexp = a[A::logsumexp];
  copy(stream, a[A::out], d_residual);  // the next block has read it in its own backward
  const ConstTensorView d_out = tensor.leave_backward(stream, d_residual, room);
  linear_backward_input(stream, wide, d_out, w[P::mlp_proj_weight]);
  gelu_backward(stream, a[A::fc], wide, a[A::fc]);
  linear_backward_input(stream, narrow, a[A::fc], w[P::fc_weight]);
  tensor.enter_backward(stream, narrow).wait(stream);
  layernorm_backward(stream, d_residual, g[P::ln_2_weight], g[P::ln_2_bias], d_norm, a[A::middle],
                     w[P::ln_2_weight], a[A::ln_2_mean], a[A::ln_2_rstd]);

  copy(stream, a[A::middle], d_residual);
  const TensorView dqkv = wide.elements(0, a[A::qkv].shape());
  const TensorView dattention = narrow.elements(0, a[A::attention].shape());
  const ConstTensorView d_middle = tensor.leave_backward(stream, d_residual, room);
  linear_backward_input(stream, dattention, d_middle, w[P::attn_proj_weight]);
  context.backward(stream, by_sequence(dqkv, logsumexp), workspace.row_dot,
                   by_sequence(dattention, logsumexp), by_sequence(a[A::attention], logsumexp),
                   logsumexp, by_sequence(a[A::qkv], logsumexp));
  copy(stream, a[A::qkv], dqkv);
  linear_backward_input(stream, narrow, dqkv, w[P::attn_weight]);
  tensor.enter_backward(stream, narrow).wait(stream);
  layernorm_backward(stream, d_residual, g[P::ln_1_weight], g[P::ln_1_bias], d_norm, in,
                     w[P::ln_1_weight], a[A::ln_1_mean], a[A::ln_1_rstd]);
}

void block_backward_weight(Stream& stream, const UnitView& g, const BlockActivations& a,
                           const BlockWorkspace& workspace, const TensorParallel& tensor) {
  // A layer whose weight is split by rows: its bias is added to the rows of this rank alone.
  const auto add_leaving = [&](P::Index weight, P::Index bias, A::Index d_out, A::Index in) {
    const ConstTensorView d_all = tensor.leave_backward(stream, a[d_out], workspace.gathered);
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
