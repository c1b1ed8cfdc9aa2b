// Low-rank adapters of a linear layer, which learn beside a weight that is frozen. [Hu21 LoRA]
//   out += h B^T  with  h = s x A^T
// for R rows x (R, I) of its input, and for each adapted part of the layer an A (r, I) and a B (O,
// r), with O the part's outputs; s is Linear::adapter_scale. The gradients are
//   d_h = s d_out B    d_x += d_h A    d_A += d_h^T x    d_B += d_out^T h
//
// Of N tensor-parallel ranks that split the outputs each has all of A and its rows of B: d_A is its
// part of a sum. Of ranks that split the inputs each has its columns of A and all of B: its h and
// its output are terms of sums, and so is d_B. The sum of outputs is the one that the ranks compute
// anyway, and those of gradients come at the end of the step (Parameter::copies). All calls are
// asynchronous on the stream.
#pragma once

#include "common/model/layout.h"

namespace ladder {

class Adapters {
 public:
  // Those of a linear layer whose weight has this index in its unit. `scratch` has 2 R times
  // adapter_columns() elements at least, in the compute dtype.
  Adapters(const Linear& linear, const ConstUnitView& weights, size_t index, TensorView scratch)
      : linear_(linear), weights_(weights), index_(index), scratch_(scratch) {}

  bool empty() const { return linear_.adapter_rank == 0; }

  // The calls below do nothing if there are none. Adds to out (R, O).
  void forward(Stream& stream, TensorView out, ConstTensorView in) const;
  // Adds to din (R, I), the gradient with respect to the input, and keeps d_h in the scratch.
  void backward_input(Stream& stream, TensorView din, ConstTensorView dout) const;
  // Adds to the gradients of A and B that are not empty. h is computed again: it costs r / O of the
  // layer's forward, and keeping it would cost R r elements in every layer. REQUIRES:
  // backward_input() has come before, and no other call since.
  void backward_weight(Stream& stream, const UnitView& gradients, ConstTensorView dout,
                       ConstTensorView in) const;

 private:
  // One part of the layer that has an adapter: its first column in the output, and in h.
  struct Adapted {
    ConstTensorView b;
    size_t number, first_output, first_column;
  };
  std::vector<Adapted> parts() const;
  // Return h and d_h, of as many rows as `rows` has.
  TensorView h(ConstTensorView rows) const;
  TensorView d_h(ConstTensorView rows) const;
  void compute_h(Stream& stream, ConstTensorView in) const;

  const Linear& linear_;
  ConstUnitView weights_;
  size_t index_;
  TensorView scratch_;
};

}  // namespace ladder
