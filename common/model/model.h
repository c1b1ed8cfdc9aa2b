// The model, forward and backward, as a walk over its units.
#pragma once

#include <vector>

#include "common/model/activations.h"
#include "common/model/hooks.h"
#include "common/model/layout.h"
#include "common/model/mixture.h"

namespace ladder {

// The tokens of a micro-batch of B sequences, of which this rank has T tokens each.
struct TokenViews {
  TokenViews(ConstTensorView ids_,
             ConstTensorView positions_ = {})  // NOLINT: made of the ids alone
      : ids(ids_), positions(positions_) {}

  ConstTensorView ids;        // (B, T) int32
  ConstTensorView positions;  // (T) int32: their places in a sequence; empty: 0, 1, ...
};

// Model runs the operations of a layout: all of the model, or the part of a pipeline stage. It owns
// no memory: the buffers and the layout must outlive it. All calls are asynchronous on the stream.
//
// Letters: a micro-batch has B sequences of T tokens, R = B T rows of C elements; V vocabulary.
class Model {
 public:
  // `parameters` and `gradients` are flat buffers with the layout, and layout.trained(). They may
  // be empty if hooks say where weights and gradients are. If the layout has slices of tensors,
  // `tensor` has the functions that combine results with the ranks that hold the other slices. If
  // ranks have different tokens of a sequence, `context` has the functions for attention. `plan`
  // says what blocks drop; the activations that are passed to the calls below must have the same
  // plan. `mixture` runs the experts of blocks that have them, and must outlive this object.
  Model(const Layout& layout, ConstTensorView parameters, TensorView gradients,
        TensorParallel tensor = {}, RecomputePlan plan = {}, ContextParallel context = {},
        Mixture* mixture = nullptr);

  // Returns the uses of a training micro-batch, in order.
  const std::vector<Use>& training_walk() const { return training_; }

  // Runs everything before the classifier for tokens whose B and T are those of `activations`. A
  // part that does not begin with the embeddings starts from activations.input(), which the caller
  // has set.
  void forward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
               const TokenViews& tokens, const Hooks& hooks = {}) const;

  // Runs the classifier after forward, in a part that has it. It computes the losses (R) of
  // `workspace`, overwrites activations.final_norm() with the gradient of loss_scale * sum(losses)
  // with respect to it if backward needs that, and adds the classifier's part of the gradient of
  // its weight.
  //   targets (B, T) int32
  void classify(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView targets, double loss_scale, const Hooks& hooks = {}) const;

  // Adds the gradients of this micro-batch, from the last operation to Layout::first_backward(). In
  // a part with the classifier it comes after classify. In any other part workspace.d_residual()
  // must be the gradient with respect to activations.output(). It becomes the gradient with respect
  // to activations.input(), which the caller must not use unless the layout sends_gradient(): it
  // is that of an input further on if backward ends in this part. What blocks have dropped is
  // computed again on the way.
  //
  // Backward may also run in two halves: `input` does all that d_residual needs, and `weight`, any
  // time later, adds the gradients that are left to add. In between the activations belong to the
  // micro-batch; `input` overwrites some of them. REQUIRES, for halves: nothing is dropped.
  void backward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                const TokenViews& tokens, const Hooks& hooks = {},
                BackwardHalf half = BackwardHalf::both) const;

  // Computes only the losses (R) of `workspace`, and adds to the hits unless they are null. It
  // comes after forward, in a part with the classifier.
  void evaluate(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView targets, const Hooks& hooks = {}, Hits* hits = nullptr) const;

  // Computes the logits (1, V) of the token after row `row`. It comes after forward of a whole
  // model.
  void logits(Stream& stream, TensorView logits, const Activations& activations, size_t row,
              const Hooks& hooks = {}) const;

 private:
  // Calls hooks.begin, then body(operation) as a named range, which profilers and traces show, and
  // then hooks.done.
  template <class Body>
  void run(Stream& stream, const Use& use, const Hooks& hooks, Body body) const;
  // Returns the classifier's use in a walk. Throws if this part of the model has no classifier.
  const Use& classifier_in(const std::vector<Use>& walk) const;
  ConstUnitView weights(const Use& use, const Hooks& hooks) const;
  UnitView gradient(const Use& use, const Hooks& hooks) const;
  void forward_operation(Stream& stream, const Operation& operation, const Activations& activations,
                         const ModelWorkspace& workspace, const TokenViews& tokens,
                         const ConstUnitView& weights) const;
  // Runs the operations of a transformer block again whose tensors backward needs and forward
  // dropped.
  void recompute_operation(Stream& stream, const Operation& operation,
                           const Activations& activations, const ModelWorkspace& workspace,
                           const TokenViews& tokens, const Use& use, const Hooks& hooks) const;
  void backward_operation(Stream& stream, const Operation& operation,
                          const Activations& activations, const ModelWorkspace& workspace,
                          const TokenViews& tokens, const Use& use, const Hooks& hooks) const;
  void backward_block(Stream& stream, const Operation& operation, const Activations& activations,
                      const ModelWorkspace& workspace, const TokenViews& tokens, const Use& use,
                      const Hooks& hooks) const;

  const Layout& layout_;
  ConstTensorView parameters_;
  TensorView gradients_;
  TensorParallel tensor_;
  RecomputePlan plan_;
  ContextParallel context_;
  Mixture* mixture_;
  std::vector<Use> training_, evaluation_;  // the walks of one micro-batch
  std::vector<Use> halves_;  // training_ with backward in two halves; empty if it recomputes
};

}  // namespace ladder
