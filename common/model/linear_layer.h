// A linear layer of a block: its parts, its split among ranks, its adapters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/runtime/shape.h"

namespace ladder {

// The part of a tensor that each of N tensor-parallel ranks holds [Shoeybi19, section 3].
enum class TensorSplit {
  none,         // all of it
  rows,         // ceil(rows / N) rows; the last ranks may have fewer
  columns,      // an N-th of the columns, or of the elements of a vector
  qkv_columns,  // an N-th of the columns of each of q, k and v, which lie side by side
  qkv_rows      // the same of the rows
};

inline constexpr double kInitialDeviation = 0.02;  // of weights [Radford19 GPT-2]

// Some outputs of a linear layer, which have a weight (and a bias) of their own. All parts of a
// layer are computed as one product.
struct LinearPart {
  const char* name;  // "c_attn", or "q_proj"
  size_t out;
  // If it is not 0, ranks split the part into at most this number of slices, and consecutive ranks
  // may have copies of one: as of k and v, if they have fewer heads than there are ranks.
  size_t most_slices = 0;
  bool is_adapted = false;  // whether it has an adapter
};
// Returns the number of slices into which `tensor_size` ranks split a part with `most_slices`.
constexpr size_t num_slices(size_t most_slices, size_t tensor_size) {
  return most_slices == 0 ? tensor_size : std::min(tensor_size, most_slices);
}
// Returns the outputs of these parts that one of `tensor_size` ranks has, which split them.
size_t split_outputs(const std::vector<LinearPart>& parts, size_t tensor_size);

// A linear layer before any split. Weights are stored as files have them: (in, out) for GPT-2,
// (out, in) for the Llama family, where those of several parts, one after the other, are one
// matrix, too. A bias is (out). Ranks that split a weight by its outputs split the bias too.
struct Linear {
  std::vector<LinearPart> parts;
  size_t in, out;  // `out` counts all parts
  TensorSplit split;
  double initial_deviation;  // of the weight's elements; the bias begins with zeros
  bool has_bias = true;
  bool out_first = false;  // whether the weight is (out, in)
  // Adapters of some parts (adapters.h): their rank r, and what their output is multiplied with.
  size_t adapter_rank = 0;
  double adapter_scale = 0;

  Shape weight_shape(const LinearPart& part) const {
    return out_first ? Shape{part.out, in} : Shape{in, part.out};
  }
  // Whether ranks split the outputs; otherwise they split the inputs.
  bool splits_outputs() const { return (split == TensorSplit::rows) == out_first; }
  // Returns the columns of x A^T for all adapters together.
  size_t adapter_columns() const {
    return adapter_rank *
           static_cast<size_t>(std::ranges::count(parts, true, &LinearPart::is_adapted));
  }
};

// The parameters of a linear layer, in their order in its unit: weights, biases, and the A and B of
// adapters, each of all parts that have one.
struct LinearParameter {
  enum Index : size_t { weight, bias, adapter_a, adapter_b, kCount };
};

}  // namespace ladder
