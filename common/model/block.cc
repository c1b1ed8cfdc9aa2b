#include "common/model/block.h"

#include "kernels/attention.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/residual.h"

namespace ladder {
namespace {

using P = BlockParameter;

// (R, n) as (B, T, n), with B and T as logsumexp (B, NH, T) has them.
template <class View>
View by_sequence(View rows, const TensorView& logsumexp) {
  return rows.reshape({logsumexp.shape()[0], logsumexp.shape()[2], rows.shape()[1]});
}

// The gradients of out = in weight + bias: adds to dweight and dbias, overwrites din. Where the
// weight's columns are split, `tensor` sums din over the ranks while the weight's own gradient is
// computed.
void linear_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                     ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                     const TensorParallel& tensor = {}) {
  matmul(stream, din, dout, weight, {.transpose_b = true});
  Work sum = tensor.reduce_backward(stream, din);
  bias_backward(stream, dbias, dout);
  matmul(stream, dweight, in, dout, {.transpose_a = true, .accumulate = true});
  sum.wait(stream);
}

}  // namespace

void block_forward(Stream& stream, const BlockActivations& a, ConstTensorView in,
                   const ConstUnitView& w, const BlockWorkspace& workspace,
                   const TensorParallel& tensor) {
  const TensorView partial = workspace.narrow;  // of a sublayer's output, before the sum over ranks
  layernorm_forward(stream, a.ln_1, a.ln_1_mean, a.ln_1_rstd, in, w[P::ln_1_weight],
                    w[P::ln_1_bias]);
  matmul(stream, a.qkv, a.ln_1, w[P::attn_weight]);
  add_bias(stream, a.qkv, w[P::attn_bias]);
  attention_forward(stream, by_sequence(a.attention, a.logsumexp), a.logsumexp,
                    by_sequence(a.qkv, a.logsumexp));
  matmul(stream, partial, a.attention, w[P::attn_proj_weight]);
  tensor.reduce_forward(stream, partial);
  add_residual(stream, a.middle, in, partial, w[P::attn_proj_bias]);

  layernorm_forward(stream, a.ln_2, a.ln_2_mean, a.ln_2_rstd, a.middle, w[P::ln_2_weight],
                    w[P::ln_2_bias]);
  matmul(stream, a.fc, a.ln_2, w[P::fc_weight]);
  add_bias(stream, a.fc, w[P::fc_bias]);
  gelu_forward(stream, a.gelu, a.fc);
  matmul(stream, partial, a.gelu, w[P::mlp_proj_weight]);
  tensor.reduce_forward(stream, partial);
  add_residual(stream, a.out, a.middle, partial, w[P::mlp_proj_bias]);
}

void block_backward(Stream& stream, TensorView d_residual, const UnitView& g,
                    const BlockActivations& a, ConstTensorView in, const ConstUnitView& w,
                    const BlockWorkspace& workspace, const TensorParallel& tensor) {
  const TensorView narrow = workspace.narrow, wide = workspace.wide;
  linear_backward(stream, wide, g[P::mlp_proj_weight], g[P::mlp_proj_bias], d_residual, a.gelu,
                  w[P::mlp_proj_weight]);
  gelu_backward(stream, wide, wide, a.fc);
  linear_backward(stream, narrow, g[P::fc_weight], g[P::fc_bias], wide, a.ln_2, w[P::fc_weight],
                  tensor);
  layernorm_backward(stream, d_residual, g[P::ln_2_weight], g[P::ln_2_bias], narrow, a.middle,
                     w[P::ln_2_weight], a.ln_2_mean, a.ln_2_rstd);

  const TensorView dqkv = wide.elements(0, a.qkv.shape());
  const TensorView dattention = narrow.elements(0, a.attention.shape());
  linear_backward(stream, dattention, g[P::attn_proj_weight], g[P::attn_proj_bias], d_residual,
                  a.attention, w[P::attn_proj_weight]);
  attention_backward(stream, by_sequence(dqkv, a.logsumexp), workspace.row_dot,
                     by_sequence(dattention, a.logsumexp), by_sequence(a.attention, a.logsumexp),
                     a.logsumexp, by_sequence(a.qkv, a.logsumexp));
  linear_backward(stream, narrow, g[P::attn_weight], g[P::attn_bias], dqkv, a.ln_1,
                  w[P::attn_weight], tensor);
  layernorm_backward(stream, d_residual, g[P::ln_1_weight], g[P::ln_1_bias], narrow, in,
                     w[P::ln_1_weight], a.ln_1_mean, a.ln_1_rstd);
}

}  // namespace ladder
