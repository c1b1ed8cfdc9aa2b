// The part of the model that a rank holds: one tensor of it, and the units that tensors make up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/model/row_split.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// The part of the model that a rank holds.
struct ModelPartition {
  static constexpr size_t kToTheEnd = ~size_t{0};
  // A pipeline stage has operations [first, end) of the model (ModelDescription::operations).
  size_t first = 0, end = kToTheEnd;
  // If it has several chunks, [first, end) is the first one, and these are the others, in order.
  struct Chunk {
    size_t first = 0, end = 0;
  };
  std::vector<Chunk> more_chunks = {};
  // With tensor parallelism a rank has slice `tensor_rank` of every tensor that is split.
  size_t tensor_rank = 0, tensor_size = 1;
  // With sequence parallelism these ranks also split the residual stream by tokens.
  bool splits_tokens = false;
  // Whether the rows of layernorms' outputs that these ranks gather are kept for backward.
  bool keeps_gathered = false;
  // With expert parallelism a rank has the expert_rank-th of expert_size equal parts of the experts
  // of every block.
  size_t expert_rank = 0, expert_size = 1;
  // The number of consecutive ranks that hold the same shard of every unit: more than 1 if a copy
  // of the model is sharded among fewer than all ranks.
  size_t replicas = 1;

  bool has(size_t operation) const {
    const auto is_in = [&](const Chunk& c) { return c.first <= operation && operation < c.end; };
    return is_in({first, end}) || std::any_of(more_chunks.begin(), more_chunks.end(), is_in);
  }
  // Returns these operations, split among tensor-parallel ranks as `other` is.
  ModelPartition split_like(const ModelPartition& other) const {
    ModelPartition part = other;
    part.first = first;
    part.end = end;
    part.more_chunks = more_chunks;
    return part;
  }
  // Returns which of a micro-batch's rows (tokens) this rank has of the residual stream.
  RowSplit residual() const {
    return splits_tokens ? RowSplit{tensor_rank, tensor_size} : RowSplit{};
  }
};

// What kind of matrix a tensor is to update rules: those of linear layers in blocks have a form.
struct MatrixForm {
  size_t count = 0;        // matrices side by side, as q, k and v; 0: no such weight
  bool out_first = false;  // (outputs, inputs), or (inputs, outputs)
};

// Where the elements that a rank holds lie in the whole tensor: in ranges of `length` elements, of
// which range i begins at element first + i * stride.
struct Ranges {
  size_t first = 0, length = 0, stride = 0;
};

// One tensor of the model, or a rank's slice of it, under its published name.
struct Parameter {
  std::string name;
  Shape shape;         // the shape of the part that the rank holds
  Shape full_shape;    // the shape of the whole tensor
  Ranges ranges;       // the place of the rank's elements in the whole tensor
  bool split = false;  // true: each tensor-parallel rank holds another slice of it
  // How many consecutive tensor-parallel ranks hold this slice; each has a part of its gradient.
  size_t copies = 1;
  // True for one of a tensor's copies, on tensor-parallel ranks and stages: the one that counts in
  // the norm and is used when full tensors are put together.
  bool counted = true;
  double initial_value = 0;      // the value of every element if initial_deviation is 0
  double initial_deviation = 0;  // otherwise elements are drawn from a normal distribution about 0
  bool trainable = true;         // false: frozen (Layout::trained)
  MatrixForm matrix = {};
  size_t index = 0;          // the number by which views of its unit find it
  size_t most_elements = 0;  // on the rank that holds most of it
  size_t offset = 0;         // the unit's element at which it begins

  // Returns whether weight decay applies: to 2-D weights, not to biases and layernorm parameters.
  bool decays() const { return shape.num_dims() == 2; }
  // Returns the row of the whole matrix that is the first row of this rank. REQUIRES: a matrix
  // whose rows are split.
  size_t first_row() const { return ranges.first / full_shape[1]; }
};

// The parts of a unit. In memory the parameters that are trained come first, one after the other
// without gaps, then padding; then the frozen ones in the same way.
enum class UnitPart { trained, frozen };
inline constexpr UnitPart kUnitParts[] = {UnitPart::trained, UnitPart::frozen};

// A unit as a rank holds it: parameters that hooks, buckets, shards and prefetching treat as one.
struct Unit {
  std::string name;
  std::vector<Parameter> parameters;
  size_t offset = 0;            // the element of the flat buffer at which it begins
  size_t num_elements = 0;      // the elements of its parameters
  size_t padded_elements = 0;   // the elements that it takes in the flat buffer
  size_t trained_elements = 0;  // those of the trained part, padding included
  // The ranks that hold the unit divide each part of it into `num_shards` shards; `replicas`
  // consecutive ranks hold the same. In a buffer of a rank's shards it begins at `shard_offset`.
  size_t num_shards = 1, replicas = 1, shard_offset = 0;
  // `is_shared` is true if another pipeline stage also holds the unit; both add to its gradient.
  // The stage that uses the unit first owns it, and `is_copy` is true on the other stage.
  bool is_shared = false, is_copy = false;
  // `num_experts` is UnitSpec's, for all ranks. `expert_size` consecutive ranks hold different
  // experts (1: all hold the same): every expert_size-th rank shares this unit and its gradient.
  size_t num_experts = 0, expert_size = 1;

  // Return the part's elements, and the unit's element at which it begins.
  size_t elements_of(UnitPart part) const {
    return part == UnitPart::trained ? trained_elements : padded_elements - trained_elements;
  }
  size_t begin_of(UnitPart part) const { return part == UnitPart::trained ? 0 : trained_elements; }
};

// Splits elements [first, last) of the part that is held into pieces that lie together in the whole
// tensor. Calls body(from, at, count) for each: elements [from, from + count) of the part are
// elements [at, at + count) of the whole tensor.
template <class Body>
void for_ranges_in(const Parameter& parameter, size_t first, size_t last, Body body) {
  const Ranges& ranges = parameter.ranges;
  while (first < last) {
    const size_t within = first % ranges.length;
    const size_t count = std::min(last - first, ranges.length - within);
    body(first, ranges.first + first / ranges.length * ranges.stride + within, count);
    first += count;
  }
}

}  // namespace ladder
