// Low-rank adapters of a linear layer, which learn beside a weight that is frozen. [Hu21 LoRA]
//   out += h B^T  with  h = s x A^T
// for R rows x (R, I) of its input, and for each adapted part of the layer an A (r, I) and a B (O,
// r), with O the part's outputs; s is Linear::adapter_scale. The gradients are
//   d_h = s d_out B    d_x += d_h A    d_A += d_h^T x    d_B += d_out^T h
//
// The A of all adapted parts are one matrix of adapter_columns() rows; each part has a B of its
// own. The scratch has h first, then d_h, both (R, adapter_columns()).
//
// If N tensor-parallel ranks split the outputs, each holds all of A and its rows of B, and computes
// a term of d_A. If they split the inputs, each holds its columns of A and all of B, and computes
// terms of h, of the output and of d_B. Nothing is summed here: the layer's own sum has the
// outputs, and gradients are summed at the end of the step (Parameter::copies). All calls are
// asynchronous on the stream.
#pragma once

#include "common/model/layout.h"

namespace ladder {

class Adapters {
 public:
  // The adapters of the linear layer whose weight has this index in its unit. `scratch` has 2 R
  // times adapter_columns() elements at least, in the compute dtype.
  Adapters(const Linear& linear, const ConstUnitView& weights, size_t index, TensorView scratch)
      : linear_(linear), weights_(weights), index_(index), scratch_(scratch) {}

  bool empty() const { return linear_.adapter_rank == 0; }

  // The calls below do nothing if the layer has no adapter. Adds the adapters' output to out (R,
  // O).
  void forward(Stream& stream, TensorView out, ConstTensorView in) const;
  // Adds to din (R, I), the gradient with respect to the input, and keeps d_h in the scratch.
  void backward_input(Stream& stream, TensorView din, ConstTensorView dout) const;
  // Adds to d_A and d_B; a view that is empty is left out. h is computed again: it costs r / O of
  // the layer's forward, and keeping it would cost R r elements in every layer. REQUIRES:
  // backward_input() has come before, and no other call on this scratch since.
  void backward_weight(Stream& stream, const UnitView& gradients, ConstTensorView dout,
                       ConstTensorView in) const;

 private:
  // One part of the layer that has an adapter: its B, its number among these parts, and its first
  // column in the output, and in h.
  struct Adapted {
    ConstTensorView b;
    size_t number, first_output, first_column;
  };
  std::vector<Adapted> parts() const;
  // Return views of h and d_h in the scratch, with as many rows as `rows` has.
  TensorView h(ConstTensorView rows) const;
  TensorView d_h(ConstTensorView rows) const;
  void compute_h(Stream& stream, ConstTensorView in) const;

  const Linear& linear_;
  ConstUnitView weights_;
  size_t index_;
  TensorView scratch_;
};

}  // namespace ladder
