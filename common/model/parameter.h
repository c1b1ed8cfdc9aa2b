// One tensor of the model as a rank holds it, and the units that such tensors make up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/runtime/tensor.h"

namespace ladder {

// Where the elements that a rank holds of a tensor lie in the whole tensor: in runs of `length`
// elements, the i-th of which begins at element first + i * stride.
struct Runs {
  size_t first = 0, length = 0, stride = 0;
};

// One tensor of the model, or a rank's slice of it, under its published name.
struct Parameter {
  std::string name;
  Shape shape;         // of what the rank holds
  Shape full_shape;    // of the whole tensor
  Runs runs;           // where the rank's elements lie in the whole tensor
  bool split = false;  // true: each tensor-parallel rank holds another slice of it
  // Of the copies that tensor-parallel ranks and pipeline stages hold of one tensor, one is
  // counted: in the global norm, and when full tensors are put together.
  bool counted = true;
  double initial_value = 0;  // of every element, unless initial_deviation > 0: then normal about 0
  double initial_deviation = 0;
  bool trainable = true;  // false: the optimizer leaves it as it is
  size_t offset = 0;      // elements from the beginning of its unit

  // Weight decay applies to 2-D weights only, not to biases and layernorm parameters.
  bool decays() const { return shape.num_dims() == 2; }
  // Of a matrix whose rows are split: the row of the whole matrix that the rank's first row is.
  size_t first_row() const { return runs.first / full_shape[1]; }
};

// The parameters that hooks, buckets, shards and prefetching treat as one.
struct Unit {
  std::string name;
  std::vector<Parameter> parameters;  // one after the other, without gaps
  size_t offset = 0;                  // elements from the beginning of the flat buffer
  size_t num_elements = 0;            // of its parameters
  size_t padded_elements = 0;         // what it takes in the flat buffer
  // A pipeline stage other than this rank's holds a copy of the unit, too, and both add to its
  // gradient. The stage that uses the unit first owns it; `is_copy` is true on the other.
  bool is_shared = false, is_copy = false;
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
