// A linear layer and its adapters as one, for ranks that have all of it.
#pragma once

#include "common/model/adapters.h"

namespace ladder {

class AdaptedLinear {
 public:
  // The layer whose weight has this index in its unit, and its adapters, if it has any. `scratch`
  // is that of Adapters. `linear` and the unit must outlive this object.
  AdaptedLinear(const Linear& linear, const ConstUnitView& weights, size_t index,
                TensorView scratch)
      : linear_(linear),
        weights_(weights),
        index_(index),
        adapters_(linear, weights, index, scratch) {}

  // Computes out (R, O) of in (R, I). Asynchronous on the stream.
  void forward(Stream& stream, TensorView out, ConstTensorView in) const;
  // Computes din (R, I) from dout (R, O), and adds to the gradients that are not empty.
  // Asynchronous on the stream.
  void backward(Stream& stream, TensorView din, const UnitView& gradients, ConstTensorView dout,
                ConstTensorView in) const;

 private:
  const Linear& linear_;
  ConstUnitView weights_;
  size_t index_;
  Adapters adapters_;
};

}  // namespace ladder
