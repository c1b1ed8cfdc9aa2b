#include "common/model/model.h"

#include <algorithm>
#include <utility>

#include "common/model/norm.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/runtime/range.h"

namespace ladder {
namespace {

// Returns (R, C) as (B, T, C).
template <class View>
View by_sequence(View rows, const Activations& a) {
  return rows.reshape({a.batch(), a.tokens(), rows.shape()[1]});
}

// Divides the rows of the residual stream that this rank has among their sequences. Calls
// body(sequences, first) for (b, t, C) that lie one after the other: b sequences' rows of the
// tokens from `first` on. The first and the last sequence can be incomplete.
template <class Body>
void for_sequences(TensorView rows, const ModelPartition& part, const Activations& a, Body body) {
  const size_t hidden = rows.shape()[1];
  const size_t num_tokens = a.tokens(), num_rows = a.batch() * num_tokens;
  const RowSplit split = part.residual();
  const size_t first = split.first(num_rows), count = split.count(num_rows);
  for (size_t done = 0; done < count;) {
    const size_t token = (first + done) % num_tokens, left = count - done;
    const bool is_complete = token == 0 && left >= num_tokens;
    const size_t sequences = is_complete ? left / num_tokens : 1;
    const size_t length = is_complete ? num_tokens : std::min(left, num_tokens - token);
    body(rows.rows(done, sequences * length).reshape({sequences, length, hidden}), token);
    done += sequences * length;
  }
}

// Return the two arguments of a position kernel for `count` tokens from `first` on: the table, and
// the places of the tokens in it. Where a rank has all tokens of a sequence, their rows of the
// table lie one after the other.
template <class View>
View table_for(View table, const TokenViews& tokens, size_t first, size_t count) {
  return tokens.positions.empty() ? table.rows(first, count) : table;
}
ConstTensorView positions_for(const TokenViews& tokens, size_t first, size_t count) {
  return tokens.positions.empty() ? ConstTensorView() : tokens.positions.rows(first, count);
}

}  // namespace

Model::Model(const Layout& layout, ConstTensorView parameters, TensorView gradients,
             TensorParallel tensor, RecomputePlan plan, ContextParallel context, Mixture* mixture)
    : layout_(layout),
      parameters_(parameters),
      gradients_(gradients),
      tensor_(std::move(tensor)),
      plan_(std::move(plan)),
      context_(std::move(context)),
      mixture_(mixture),
      training_(ladder::training_walk(layout, plan_)),
      evaluation_(evaluation_walk(layout)) {
  check(mixture != nullptr || !layout.has(OperationKind::experts),
        "Model: nothing runs the experts");
  const bool recomputes =
      std::ranges::any_of(training_, [](const Use& use) { return use.pass == Pass::recompute; });
  if (!recomputes && !layout.has(OperationKind::experts))
    halves_ = in_two_halves(layout, training_);
}

template <class Body>
void Model::run(Stream& stream, const Use& use, const Hooks& hooks, Body body) const {
  if (hooks.begin) hooks.begin(use);
  {
    const Range range(stream, layout_.unit(use.unit).name, name_of(use.pass));
    body(layout_.operations()[use.operation]);
  }
  if (hooks.done) hooks.done(use);
}

const Use& Model::classifier_in(const std::vector<Use>& walk) const {
  const auto use = std::ranges::find(walk, Pass::classifier, &Use::pass);
  check(use != walk.end(), "Model: this part of the model has no classifier");
  return *use;
}

ConstUnitView Model::weights(const Use& use, const Hooks& hooks) const {
  return hooks.weights ? hooks.weights(use) : unit_of(layout_, use.unit, parameters_);
}

UnitView Model::gradient(const Use& use, const Hooks& hooks) const {
  const Layout& trained = layout_.trained();
  if (!use.writes_gradient) return {trained.unit(use.unit), {}};  // it has none
  return hooks.gradient ? hooks.gradient(use) : unit_of(trained, use.unit, gradients_);
}

void Model::forward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                    const TokenViews& tokens, const Hooks& hooks) const {
  const Range range = Range::pass(stream, "forward");
  for (const Use& use : training_) {
    if (use.pass != Pass::forward) continue;
    run(stream, use, hooks, [&](const Operation& operation) {
      forward_operation(stream, operation, activations, workspace, tokens, weights(use, hooks));
    });
  }
}

void Model::forward_operation(Stream& stream, const Operation& operation, const Activations& a,
                              const ModelWorkspace& workspace, const TokenViews& tokens,
                              const ConstUnitView& weights) const {
  const BlockWorkspace scratch = workspace.block(a);
  const ModelConfig& config = layout_.config();
  switch (operation.kind) {
    case OperationKind::token_embedding: {
      const Parameter& table = layout_.unit(operation.unit).parameters[0];
      // A rank with a slice of the table has rows of zeros for the tokens of the other ranks.
      const TensorView partial = table.split ? scratch.hidden : a.input();
      embedding_forward(stream, by_sequence(partial, a), tokens.ids, weights[0], table.first_row());
      const ConstTensorView sum = tensor_.leave(stream, partial);
      if (table.split) copy(stream, a.input(), sum);
      return;
    }
    case OperationKind::position_embedding: {
      for_sequences(a.input(), layout_.part(), a, [&](TensorView residual, size_t first) {
        const size_t count = residual.shape()[1];
        position_forward(stream, residual, residual, table_for(weights[0], tokens, first, count),
                         positions_for(tokens, first, count));
      });
      return;
    }
    case OperationKind::block:
      return block_forward(
          stream, {operation.sublayers, a.block(operation.index), a.block_input(operation.index),
                   weights, scratch, tensor_, context_, tokens.positions});
    case OperationKind::router:
    case OperationKind::experts:
      return mixture_->forward(stream, operation, a.block(operation.index), weights);
    case OperationKind::final_norm:
      return norm_forward(stream, config.norm, config.norm_epsilon, a.final_norm(), a.final_mean(),
                          a.final_rstd(), a.output(), weights[0], weights[1]);
    case OperationKind::classifier:
      fail("Model::forward: the classifier is a pass of its own");
  }
}

void Model::classify(Stream& stream, const Activations& a, const ModelWorkspace& workspace,
                     ConstTensorView targets, double loss_scale, const Hooks& hooks) const {
  const Use& use = classifier_in(training_);
  const bool goes_on = layout_.first_backward() < use.operation;  // whether there is backward
  const TensorView losses = workspace.losses(a), norm = a.final_norm();
  const TensorView dx = goes_on ? workspace.block(a).hidden : TensorView();
  run(stream, use, hooks, [&](const Operation& operation) {
    const ConstTensorView x = tensor_.enter(stream, norm, workspace.block(a).gathered);
    classifier_forward_backward(stream, losses, dx, gradient(use, hooks)[0], x,
                                weights(use, hooks)[0], targets.reshape(losses.shape()), loss_scale,
                                workspace.classifier(), tensor_,
                                layout_.unit(operation.unit).parameters[0].first_row());
    if (!goes_on) return;
    TensorParallel::Pending d_norm = tensor_.enter_backward(stream, dx);
    d_norm.work.wait(stream);
    // Other micro-batches may run before this one's backward.
    copy(stream, norm, d_norm.rows);
  });
}

void Model::backward(Stream& stream, const Activations& activations,
                     const ModelWorkspace& workspace, const TokenViews& tokens, const Hooks& hooks,
                     BackwardHalf half) const {
  check(activations.plan() == plan_, "Model: the activations have another plan than the model");
  const bool is_whole = half == BackwardHalf::both;
  check(is_whole || !halves_.empty(), "Model: no halves of backward where blocks recompute");
  const Pass pass = is_whole                      ? Pass::backward
                    : half == BackwardHalf::input ? Pass::backward_input
                                                  : Pass::backward_weight;
  const Range range = Range::pass(stream, name_of(pass));
  for (const Use& use : is_whole ? training_ : halves_) {
    if (use.pass != Pass::recompute && use.pass != pass) continue;
    run(stream, use, hooks, [&](const Operation& operation) {
      if (use.pass == Pass::recompute) {
        recompute_operation(stream, operation, activations, workspace, tokens, use, hooks);
      } else {
        backward_operation(stream, operation, activations, workspace, tokens, use, hooks);
      }
    });
  }
  // The embeddings' gradient is that of the residual stream after them.
  if (half == BackwardHalf::input) {
    copy(stream, activations.input(), workspace.d_residual(activations));
  }
}

void Model::recompute_operation(Stream& stream, const Operation& operation, const Activations& a,
                                const ModelWorkspace& workspace, const TokenViews& tokens,
                                const Use& use, const Hooks& hooks) const {
  const ConstUnitView no_weights(layout_.unit(use.unit), {});
  block_forward(stream,
                {operation.sublayers, a.block(operation.index), a.block_input(operation.index),
                 use.reads_weights ? weights(use, hooks) : no_weights, workspace.block(a), tensor_,
                 context_, tokens.positions},
                plan_.recomputed(operation.index));
}

void Model::backward_operation(Stream& stream, const Operation& operation, const Activations& a,
                               const ModelWorkspace& workspace, const TokenViews& tokens,
                               const Use& use, const Hooks& hooks) const {
  const TensorView d_residual =
      use.pass == Pass::backward_weight ? a.input() : workspace.d_residual(a);
  switch (operation.kind) {
    case OperationKind::token_embedding: {
      const ConstTensorView d_all =
          tensor_.leave_backward(stream, d_residual, workspace.block(a).gathered);
      return embedding_backward(stream, gradient(use, hooks)[0], tokens.ids, by_sequence(d_all, a),
                                layout_.unit(operation.unit).parameters[0].first_row());
    }
    case OperationKind::position_embedding: {
      const TensorView dtable = gradient(use, hooks)[0];
      for_sequences(d_residual, layout_.part(), a, [&](TensorView d_rows, size_t first) {
        const size_t count = d_rows.shape()[1];
        position_backward(stream, table_for(dtable, tokens, first, count), d_rows,
                          positions_for(tokens, first, count));
      });
      return;
    }
    case OperationKind::block:
      return backward_block(stream, operation, a, workspace, tokens, use, hooks);
    case OperationKind::router:
    case OperationKind::experts:
      return mixture_->backward(stream, operation, workspace.block(a).hidden, d_residual,
                                gradient(use, hooks), a.block(operation.index),
                                weights(use, hooks));
    case OperationKind::final_norm: {
      const UnitView gradients = gradient(use, hooks);
      fill(stream, d_residual, 0);
      return norm_backward(stream, layout_.config().norm, d_residual, gradients[0], gradients[1],
                           a.final_norm(), a.output(), weights(use, hooks)[0], a.final_mean(),
                           a.final_rstd());
    }
    case OperationKind::classifier:
      return;  // classify() has already added its gradients
  }
}

void Model::backward_block(Stream& stream, const Operation& operation, const Activations& a,
                           const ModelWorkspace& workspace, const TokenViews& tokens,
                           const Use& use, const Hooks& hooks) const {
  const bool is_weight = use.pass == Pass::backward_weight;
  const ConstUnitView no_weights(layout_.unit(use.unit), {});
  const UnitView gradients = gradient(use, hooks);
  block_backward(stream,
                 {operation.sublayers, a.block(operation.index), a.block_input(operation.index),
                  is_weight ? no_weights : weights(use, hooks), workspace.block(a), tensor_,
                  context_, tokens.positions},
                 is_weight ? TensorView() : workspace.d_residual(a), gradients,
                 is_weight                          ? BackwardHalf::weight
                 : use.pass == Pass::backward_input ? BackwardHalf::input
                                                    : BackwardHalf::both);
}

void Model::evaluate(Stream& stream, const Activations& a, const ModelWorkspace& workspace,
                     ConstTensorView targets, const Hooks& hooks, Hits* hits) const {
  const TensorView losses = workspace.losses(a);
  const Use& use = classifier_in(evaluation_);
  run(stream, use, hooks, [&](const Operation& operation) {
    const ConstTensorView x = tensor_.enter(stream, a.final_norm(), workspace.block(a).gathered);
    classifier_forward(stream, losses, x, weights(use, hooks)[0], targets.reshape(losses.shape()),
                       workspace.classifier(), tensor_,
                       layout_.unit(operation.unit).parameters[0].first_row(), hits);
  });
}

void Model::logits(Stream& stream, TensorView logits, const Activations& a, size_t row,
                   const Hooks& hooks) const {
  const Use& use = classifier_in(evaluation_);
  run(stream, use, hooks, [&](const Operation&) {
    matmul(stream, logits, a.final_norm().rows(row, 1), weights(use, hooks)[0],
           {.transpose_b = true});
  });
}

}  // namespace ladder
