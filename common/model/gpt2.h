// GPT-2, forward and backward, as a walk over its units.
#pragma once

#include "common/model/activations.h"
#include "common/model/hooks.h"
#include "common/model/layout.h"

namespace ladder {

// Owns no memory. The views may be empty where hooks say where weights and gradients are.
// All calls are asynchronous on the stream.
class Gpt2 {
 public:
  // `parameters` and `gradients`: flat buffers with the layout, which must outlive this.
  Gpt2(const Layout& layout, ConstTensorView parameters, TensorView gradients)
      : layout_(layout), parameters_(parameters), gradients_(gradients) {}

  // Embeddings, blocks, final norm, for tokens (B, T) int32 with B and T as `activations` has them.
  void forward(Stream& stream, const Activations& activations, ConstTensorView tokens,
               const Hooks& hooks = {}) const;

  // After forward: losses (R) of `workspace`, the beginning of the gradients of
  // loss_scale * sum(losses), and the classifier's share of the token embedding's gradient.
  //   targets (B, T) int32
  void classify(Stream& stream, const Activations& activations, ModelWorkspace& workspace,
                ConstTensorView targets, double loss_scale, const Hooks& hooks = {}) const;

  // After classify: adds the gradients of this micro-batch, unit by unit from the last to the
  // first, position embedding and token embedding at the end.
  void backward(Stream& stream, const Activations& activations, ModelWorkspace& workspace,
                ConstTensorView tokens, const Hooks& hooks = {}) const;

  // After forward: losses (R) of `workspace`, and nothing else.
  void evaluate(Stream& stream, const Activations& activations, ModelWorkspace& workspace,
                ConstTensorView targets, const Hooks& hooks = {}) const;

  // After forward: logits (1, V) after row `row` (of R).
  void logits(Stream& stream, TensorView logits, const Activations& activations, size_t row,
              const Hooks& hooks = {}) const;

 private:
  ConstUnitView weights(size_t unit, Pass pass, const Hooks& hooks) const;
  UnitView gradient(size_t unit, const Hooks& hooks) const;

  const Layout& layout_;
  ConstTensorView parameters_;
  TensorView gradients_;
};

}  // namespace ladder
