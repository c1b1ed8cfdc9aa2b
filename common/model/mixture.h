// The experts of transformer blocks as the model sees them: what takes the place of an MLP.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/model/block.h"
#include "common/model/layout.h"

namespace ladder {

// A Mixture runs two operations of a block, the router and the experts. With x =
// layernorm_2(middle) they compute
//   out = middle + sum over the chosen experts e of weight_e(x) expert_e(x)
// A lesson implements it. Letters as in block.h; operation.index is the index of the block. All
// calls are queued on the stream, but may wait for it and for other ranks.
class Mixture {
 public:
  virtual ~Mixture() = default;

  // Says how many tokens of each sequence of the next micro-batch are not padding, which comes
  // after them: padding goes to no expert, and counts nowhere. Empty, as at first: there is none.
  virtual void set_lengths(std::vector<size_t> lengths) = 0;

  // Forward of the router, and then of the experts. The router reads ln_2, and the experts read
  // ln_2 and `middle` and overwrite `out`.
  virtual void forward(Stream& stream, const Operation& operation, const BlockActivations& block,
                       const ConstUnitView& weights) = 0;
  // Backward of the experts, and then of the router. d_out (R, C) is the gradient with respect to
  // `out`. The experts overwrite d_norm (R, C) with their part of the gradient with respect to
  // ln_2, and the router adds its part. Both add to the gradients of their parameters.
  virtual void backward(Stream& stream, const Operation& operation, TensorView d_norm,
                        ConstTensorView d_out, const UnitView& gradients,
                        const BlockActivations& block, const ConstUnitView& weights) = 0;
};

// Makes what runs the experts of a whole model on one rank, for one sequence of at most so many
// tokens.
using MixtureMaker = std::function<std::unique_ptr<Mixture>(const Layout&, Memory&, size_t tokens)>;

}  // namespace ladder
