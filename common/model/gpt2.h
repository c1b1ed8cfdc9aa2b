// GPT-2, forward and backward, as a walk over its units.
#pragma once

#include <vector>

#include "common/model/activations.h"
#include "common/model/hooks.h"
#include "common/model/layout.h"

namespace ladder {

// Runs the operations that the layout has. Where they are a part of the model, the residual stream
// comes from the ranks with the part before and goes to those with the part after. Owns no memory:
// the views and the layout must outlive this. The views may be empty where hooks say where weights
// and gradients are. All calls are asynchronous on the stream.
class Gpt2 {
 public:
  // `parameters` and `gradients`: flat buffers with the layout. `tensor`: where the layout has
  // slices of tensors, what meets the ranks with the other slices.
  Gpt2(const Layout& layout, ConstTensorView parameters, TensorView gradients,
       TensorParallel tensor = {});

  // Everything before the classifier, for tokens (B, T) int32 with B and T as `activations` has
  // them. REQUIRES: in a part that does not embed the tokens, activations.input().
  void forward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
               ConstTensorView tokens, const Hooks& hooks = {}) const;

  // After forward, in a part with the classifier: losses (R) of `workspace`; the gradient of
  // loss_scale * sum(losses) with respect to the final norm's output, in place of that output; and
  // the classifier's share of the gradient of its weight.
  //   targets (B, T) int32
  void classify(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView targets, double loss_scale, const Hooks& hooks = {}) const;

  // After classify: adds the gradients of this micro-batch, from the last operation to the first.
  // REQUIRES: in a part without the classifier, workspace.d_residual(), the gradient with respect
  // to activations.output(). On return it is that with respect to activations.input().
  void backward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView tokens, const Hooks& hooks = {}) const;

  // After forward, in a part with the classifier: losses (R) of `workspace`, and nothing else.
  void evaluate(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView targets, const Hooks& hooks = {}) const;

  // After forward of a whole model: logits (1, V) that follow row `row` (of R).
  void logits(Stream& stream, TensorView logits, const Activations& activations, size_t row,
              const Hooks& hooks = {}) const;

 private:
  // Calls body(operation) as a range of profilers, then hooks.done.
  template <class Body>
  void run(Stream& stream, const Use& use, const Hooks& hooks, Body body) const;
  // The use that the classifier is: of training or of evaluation.
  const Use& classifier_in(const std::vector<Use>& walk) const;
  ConstUnitView weights(const Use& use, const Hooks& hooks) const;
  UnitView gradient(const Use& use, const Hooks& hooks) const;
  void forward_operation(Stream& stream, const Operation& operation, const Activations& activations,
                         const ModelWorkspace& workspace, ConstTensorView tokens,
                         const ConstUnitView& weights) const;
  void backward_operation(Stream& stream, const Operation& operation,
                          const Activations& activations, const ModelWorkspace& workspace,
                          ConstTensorView tokens, const Use& use, const Hooks& hooks) const;

  const Layout& layout_;
  ConstTensorView parameters_;
  TensorView gradients_;
  TensorParallel tensor_;
  std::vector<Use> training_, evaluation_;  // walks
};

}  // namespace ladder
