#include "common/model/gpt2.h"

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"

namespace ladder {
namespace {

void done(size_t unit, Pass pass, const Hooks& hooks) {
  if (hooks.done) hooks.done(unit, pass);
}

// (R, C) as (B, T, C).
TensorView by_sequence(TensorView rows, const Activations& a) {
  return rows.reshape({a.batch(), a.tokens(), rows.shape()[1]});
}

}  // namespace

ConstUnitView Gpt2::weights(size_t unit, Pass pass, const Hooks& hooks) const {
  return hooks.weights ? hooks.weights(unit, pass) : unit_of(layout_, unit, parameters_);
}

UnitView Gpt2::gradient(size_t unit, const Hooks& hooks) const {
  return hooks.gradient ? hooks.gradient(unit) : unit_of(layout_, unit, gradients_);
}

void Gpt2::forward(Stream& stream, const Activations& a, ConstTensorView tokens,
                   const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding(), wpe = layout_.position_embedding();
  const TensorView embedded = by_sequence(a.embedded(), a);
  embedding_forward(stream, embedded, tokens, weights(wte, Pass::forward, hooks)[0]);
  done(wte, Pass::forward, hooks);
  position_forward(stream, embedded, weights(wpe, Pass::forward, hooks)[0]);
  done(wpe, Pass::forward, hooks);
  for (size_t layer = 0; layer < layout_.config().num_layers; ++layer) {
    const size_t unit = layout_.block(layer);
    block_forward(stream, a.block(layer), a.block_input(layer),
                  weights(unit, Pass::forward, hooks));
    done(unit, Pass::forward, hooks);
  }
  const ConstUnitView norm = weights(layout_.final_norm(), Pass::forward, hooks);
  layernorm_forward(stream, a.final_norm(), a.final_mean(), a.final_rstd(),
                    a.block_input(layout_.config().num_layers), norm[0], norm[1]);
  done(layout_.final_norm(), Pass::forward, hooks);
}

void Gpt2::classify(Stream& stream, const Activations& a, ModelWorkspace& workspace,
                    ConstTensorView targets, double loss_scale, const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding();
  const TensorView losses = workspace.losses(a);
  classifier_forward_backward(stream, losses, workspace.block(a).narrow, gradient(wte, hooks)[0],
                              a.final_norm(), weights(wte, Pass::classifier, hooks)[0],
                              targets.reshape(losses.shape()), loss_scale, workspace.classifier());
  done(wte, Pass::classifier, hooks);
}

void Gpt2::backward(Stream& stream, const Activations& a, ModelWorkspace& workspace,
                    ConstTensorView tokens, const Hooks& hooks) const {
  const size_t norm = layout_.final_norm(), num_layers = layout_.config().num_layers;
  const TensorView d_residual = workspace.d_residual(a);
  fill(stream, d_residual, 0);
  const UnitView dnorm = gradient(norm, hooks);
  layernorm_backward(stream, d_residual, dnorm[0], dnorm[1], workspace.block(a).narrow,
                     a.block_input(num_layers), weights(norm, Pass::backward, hooks)[0],
                     a.final_mean(), a.final_rstd());
  done(norm, Pass::backward, hooks);
  for (size_t layer = num_layers; layer-- > 0;) {
    const size_t unit = layout_.block(layer);
    block_backward(stream, d_residual, gradient(unit, hooks), a.block(layer), a.block_input(layer),
                   weights(unit, Pass::backward, hooks), workspace.block(a));
    done(unit, Pass::backward, hooks);
  }
  const size_t wte = layout_.token_embedding(), wpe = layout_.position_embedding();
  position_backward(stream, gradient(wpe, hooks)[0], by_sequence(d_residual, a));
  done(wpe, Pass::backward, hooks);
  embedding_backward(stream, gradient(wte, hooks)[0], tokens, by_sequence(d_residual, a));
  done(wte, Pass::backward, hooks);
}

void Gpt2::evaluate(Stream& stream, const Activations& a, ModelWorkspace& workspace,
                    ConstTensorView targets, const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding();
  const TensorView losses = workspace.losses(a);
  classifier_forward(stream, losses, a.final_norm(), weights(wte, Pass::classifier, hooks)[0],
                     targets.reshape(losses.shape()), workspace.classifier());
  done(wte, Pass::classifier, hooks);
}

void Gpt2::logits(Stream& stream, TensorView logits, const Activations& a, size_t row,
                  const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding();
  matmul(stream, logits, a.final_norm().rows(row, 1), weights(wte, Pass::classifier, hooks)[0],
         {.transpose_b = true});
  done(wte, Pass::classifier, hooks);
}

}  // namespace ladder
