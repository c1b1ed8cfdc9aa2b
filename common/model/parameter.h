// One tensor of the model as a rank holds it, the units that tensors make up, and parts of the
// model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/runtime/tensor.h"

namespace ladder {

// Where the elements that a rank holds of a tensor lie in the whole tensor: in runs of `length`
// elements, the i-th from first + i * stride on.
struct Runs {
  size_t first = 0, length = 0, stride = 0;
};

// One tensor of the model, or a rank's slice of it, under its published name; weights are stored
// (in, out).
struct Parameter {
  std::string name;
  Shape shape;         // of what the rank holds
  Shape full_shape;    // as published
  Runs runs;           // where the one lies in the other
  bool split = false;  // among the tensor-parallel ranks; else each of them has all of it
  // Of what several ranks hold alike, beside data parallelism, one counts it in the global norm.
  bool counted = true;
  double initial_value = 0;  // of every element, unless initial_deviation > 0: then normal about 0
  double initial_deviation = 0;
  size_t offset = 0;  // elements from the beginning of its unit

  // Weight decay applies to 2-D weights only, not to biases and layernorm parameters.
  bool decays() const { return shape.num_dims() == 2; }
};

// The part of the model that a rank holds.
struct ModelPart {
  static constexpr size_t kToTheEnd = ~size_t{0};

  // A pipeline stage: units [first_unit, end_unit) of the model's L + 3, in forward order: token
  // embedding, position embedding, blocks, final norm. The stage with the final norm has the
  // classifier, and so a copy of the token embedding.
  size_t first_unit = 0, end_unit = kToTheEnd;
  // Tensor parallelism: the rank's slice of every tensor that is split.
  size_t tensor_rank = 0, tensor_size = 1;
};

// A unit is what hooks, buckets, shards and pipeline stages count in: the token embedding, the
// position embedding, each block, the final norm.
struct Unit {
  std::string name;
  std::vector<Parameter> parameters;  // one after the other, without gaps
  size_t offset = 0;                  // elements from the beginning of the flat buffer
  size_t num_elements = 0;            // of its parameters
  size_t padded_elements = 0;         // what it takes in the flat buffer
};

// Calls body(from, at, count) for the runs of elements [from, from + count) of what is held that
// make up [first, last): they are elements [at, at + count) of the whole tensor.
template <class Body>
void for_runs_in(const Parameter& parameter, size_t first, size_t last, Body body) {
  const Runs& runs = parameter.runs;
  while (first < last) {
    const size_t within = first % runs.length;
    const size_t count = std::min(last - first, runs.length - within);
    body(first, runs.first + first / runs.length * runs.stride + within, count);
    first += count;
  }
}

}  // namespace ladder
