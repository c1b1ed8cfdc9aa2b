// GPT-2, forward and backward, as a walk over its units.
#pragma once

#include "common/model/activations.h"
#include "common/model/hooks.h"
#include "common/model/layout.h"

namespace ladder {

// Runs the units that the layout has: where these are a part of the model, the residual stream
// comes from and goes to the ranks with the parts before and behind. Owns no memory. The views may
// be empty where hooks say where weights and gradients are. All calls are asynchronous on the
// stream.
class Gpt2 {
 public:
  // `parameters` and `gradients`: flat buffers with the layout, which must outlive this.
  // `tensor`: the ranks that have a slice each, in layouts with slices.
  Gpt2(const Layout& layout, ConstTensorView parameters, TensorView gradients,
       const TensorParallel& tensor = {})
      : layout_(layout), parameters_(parameters), gradients_(gradients), tensor_(tensor) {}

  // Embeddings, blocks, final norm, for tokens (B, T) int32 with B and T as `activations` has them.
  // REQUIRES: where the part does not embed the tokens: activations.input().
  void forward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
               ConstTensorView tokens, const Hooks& hooks = {}) const;

  // After forward, with the classifier: losses (R) of `workspace`; the beginning of the gradients
  // of loss_scale * sum(losses), which replaces the final norm's output; and the classifier's share
  // of the token embedding's gradient.
  //   targets (B, T) int32
  void classify(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView targets, double loss_scale, const Hooks& hooks = {}) const;

  // After classify: adds the gradients of this micro-batch, unit by unit from the last to the
  // first, position embedding and token embedding at the end. REQUIRES: where the part has no
  // classifier: workspace.d_residual(), the gradient with respect to activations.output(). On
  // return it is that with respect to activations.input().
  void backward(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView tokens, const Hooks& hooks = {}) const;

  // After forward, with the classifier: losses (R) of `workspace`, and nothing else.
  void evaluate(Stream& stream, const Activations& activations, const ModelWorkspace& workspace,
                ConstTensorView targets, const Hooks& hooks = {}) const;

  // After forward of a whole model: logits (1, V) after row `row` (of R).
  void logits(Stream& stream, TensorView logits, const Activations& activations, size_t row,
              const Hooks& hooks = {}) const;

 private:
  ConstUnitView weights(size_t unit, Pass pass, const Hooks& hooks) const;
  UnitView gradient(size_t unit, const Hooks& hooks) const;

  const Layout& layout_;
  ConstTensorView parameters_;
  TensorView gradients_;
  TensorParallel tensor_;
};

}  // namespace ladder
