#include "common/model/gpt2.h"

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/runtime/range.h"

namespace ladder {
namespace {

// What a unit does in a pass: a range of profilers, then the hook.
template <class Body>
void run_unit(const Layout& layout, size_t unit, Pass pass, const Hooks& hooks, Body body) {
  {
    const Range range(layout.unit(unit).name, name_of(pass));
    body();
  }
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

void Gpt2::forward(Stream& stream, const Activations& a, const ModelWorkspace& workspace,
                   ConstTensorView tokens, const Hooks& hooks) const {
  const Range range("forward");
  const auto run = [&](size_t unit, auto body) {
    run_unit(layout_, unit, Pass::forward, hooks,
             [&] { body(weights(unit, Pass::forward, hooks)); });
  };
  const BlockWorkspace scratch = workspace.block(a);
  TensorView stream_in = by_sequence(a.input(), a);
  if (layout_.embeds_tokens()) {
    const TensorView embedded = by_sequence(scratch.narrow, a);
    run(layout_.token_embedding(), [&](const ConstUnitView& table) {
      embedding_forward(stream, embedded, tokens, table[0], layout_.first_token());
      tensor_.reduce_forward(stream, embedded);
    });
    if (!layout_.embeds_positions()) copy(stream, a.input(), scratch.narrow);
    stream_in = embedded;
  }
  if (layout_.embeds_positions()) {
    run(layout_.position_embedding(), [&](const ConstUnitView& table) {
      position_forward(stream, by_sequence(a.input(), a), stream_in, table[0]);
    });
  }
  for (size_t layer = 0; layer < layout_.num_layers(); ++layer) {
    run(layout_.block(layer), [&](const ConstUnitView& block) {
      block_forward(stream, a.block(layer), a.block_input(layer), block, scratch, tensor_);
    });
  }
  if (!layout_.has_classifier()) return;
  run(layout_.final_norm(), [&](const ConstUnitView& norm) {
    layernorm_forward(stream, a.final_norm(), a.final_mean(), a.final_rstd(), a.output(), norm[0],
                      norm[1]);
  });
}

void Gpt2::classify(Stream& stream, const Activations& a, const ModelWorkspace& workspace,
                    ConstTensorView targets, double loss_scale, const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding();
  const TensorView losses = workspace.losses(a), dx = workspace.block(a).narrow;
  run_unit(layout_, wte, Pass::classifier, hooks, [&] {
    classifier_forward_backward(stream, losses, dx, gradient(wte, hooks)[0], a.final_norm(),
                                weights(wte, Pass::classifier, hooks)[0],
                                targets.reshape(losses.shape()), loss_scale, workspace.classifier(),
                                {tensor_, layout_.first_token()});
    copy(stream, a.final_norm(), dx);  // other micro-batches may run before this one's backward
  });
}

void Gpt2::backward(Stream& stream, const Activations& a, const ModelWorkspace& workspace,
                    ConstTensorView tokens, const Hooks& hooks) const {
  const Range range("backward");
  const auto run = [&](size_t unit, auto body) {
    run_unit(layout_, unit, Pass::backward, hooks, [&] { body(unit, gradient(unit, hooks)); });
  };
  const TensorView d_residual = workspace.d_residual(a);
  if (layout_.has_classifier()) {
    fill(stream, d_residual, 0);
    run(layout_.final_norm(), [&](size_t unit, const UnitView& dnorm) {
      layernorm_backward(stream, d_residual, dnorm[0], dnorm[1], a.final_norm(), a.output(),
                         weights(unit, Pass::backward, hooks)[0], a.final_mean(), a.final_rstd());
    });
  }
  for (size_t layer = layout_.num_layers(); layer-- > 0;) {
    run(layout_.block(layer), [&](size_t unit, const UnitView& dblock) {
      block_backward(stream, d_residual, dblock, a.block(layer), a.block_input(layer),
                     weights(unit, Pass::backward, hooks), workspace.block(a), tensor_);
    });
  }
  if (layout_.embeds_positions()) {
    run(layout_.position_embedding(), [&](size_t, const UnitView& dtable) {
      position_backward(stream, dtable[0], by_sequence(d_residual, a));
    });
  }
  if (!layout_.is_token_embedding(layout_.token_embedding())) return;
  run(layout_.token_embedding(), [&](size_t, const UnitView& dtable) {
    if (!layout_.embeds_tokens()) return;  // the classifier's share is all
    embedding_backward(stream, dtable[0], tokens, by_sequence(d_residual, a),
                       layout_.first_token());
  });
}

void Gpt2::evaluate(Stream& stream, const Activations& a, const ModelWorkspace& workspace,
                    ConstTensorView targets, const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding();
  const TensorView losses = workspace.losses(a);
  run_unit(layout_, wte, Pass::classifier, hooks, [&] {
    classifier_forward(stream, losses, a.final_norm(), weights(wte, Pass::classifier, hooks)[0],
                       targets.reshape(losses.shape()), workspace.classifier(),
                       {tensor_, layout_.first_token()});
  });
}

void Gpt2::logits(Stream& stream, TensorView logits, const Activations& a, size_t row,
                  const Hooks& hooks) const {
  const size_t wte = layout_.token_embedding();
  run_unit(layout_, wte, Pass::classifier, hooks, [&] {
    matmul(stream, logits, a.final_norm().rows(row, 1), weights(wte, Pass::classifier, hooks)[0],
           {.transpose_b = true});
  });
}

}  // namespace ladder
