// What a GPT-2 consists of, written down once: its units with their parameters, and the operations
// that take a token from one end of the model to the other. The layout of memory, the order in
// which ZeRO-3 gathers units, the cuts of a pipeline, counts of operations and of bytes sent all
// derive from this description, and from nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/model/config.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// Which part of a tensor each of N tensor-parallel ranks holds [Shoeybi19, section 3].
enum class TensorSplit {
  none,        // all of it
  rows,        // ceil(rows / N) rows; the last ranks may have fewer
  columns,     // an N-th of the columns (of a vector: of its elements)
  qkv_columns  // an N-th of the columns of each of q, k and v, which lie side by side
};

// One tensor of the whole model, under its published name. Weights are stored (in, out).
struct ParameterSpec {
  std::string name;
  Shape shape;
  TensorSplit split = TensorSplit::none;
  double initial_value = 0;      // of every element, where initial_deviation is 0
  double initial_deviation = 0;  // else elements are normal numbers about 0 with this deviation
  bool trainable = true;         // false: the optimizer leaves it as it is
};

// Parameters that are used together: what hooks, buckets, shards and prefetching count in.
struct UnitSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
};

// What can happen to the tokens of a micro-batch.
enum class OperationKind {
  token_embedding,     // rows of a table (V, C) become the residual stream
  position_embedding,  // adds rows of a table (T, C)
  block,               // a transformer block
  final_norm,          // the layernorm before the classifier
  classifier           // logits over the vocabulary, and the loss
};

// One operation on the way through the model, and the unit whose parameters it uses. A unit may be
// used by several operations: GPT-2's token embedding is the weight of its classifier, too.
struct Operation {
  OperationKind kind;
  size_t unit;
  size_t index = 0;                     // among the operations of its kind
  double forward_flops = 0;             // of its matrix products in forward, for one token
  size_t tensor_sums = 0;               // vectors of C elements a token that tensor-parallel ranks
                                        // add up, forward and backward together
  bool backward_reads_weights = false;  // in a pass of its own, after the classifier
  bool starts_stage = true;             // may a pipeline be cut just before it?
};

// Units in the order of their first use, operations in the order of forward.
struct ModelDescription {
  explicit ModelDescription(const Gpt2Config& model_config) : config(model_config) {}

  Gpt2Config config;
  std::vector<UnitSpec> units;
  std::vector<Operation> operations;

  // Parameters of the model; a unit counts once, however many operations use it.
  size_t num_parameters() const;
  // Operations of the matrix products of forward and backward for one token, 6 for each parameter
  // and 12 L C T for attention, as is usual for MFU. [Chowdhery22 PaLM, appendix B]
  double flops_per_token() const;
};

// Units: wte, wpe, h.0 to h.L-1, ln_f. Operations: one for each unit, and at last the classifier,
// which uses wte again.
ModelDescription describe(const Gpt2Config& config);

}  // namespace ladder
