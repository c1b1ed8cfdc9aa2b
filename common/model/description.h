// The one description of a model: its units with their parameters, and the operations that take a
// token from one end to the other. All else follows from it: the layout of memory, the order in
// which ZeRO-3 gathers, the cuts of a pipeline, the counts of FLOP and of bytes sent.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/model/parameter.h"
#include "common/model/sublayer.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// One tensor of the whole model, under its published name and in its published shape.
struct ParameterSpec {
  std::string name;
  Shape shape;
  TensorSplit split = TensorSplit::none;
  size_t most_slices = 0;        // as in LinearPart
  double initial_value = 0;      // the value of every element if initial_deviation is 0
  double initial_deviation = 0;  // otherwise elements are drawn from a normal distribution about 0
  bool trainable = true;         // false: frozen (Layout::trained)
  MatrixForm matrix = {};        // of weights of linear layers
  // The number by which views of its unit find it. Tensors with the same one lie side by side, and
  // are found as one.
  size_t index = 0;
};

// A unit has parameters that are used together. Hooks, buckets, shards and prefetching count in
// units.
struct UnitSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
  // If it is not 0, the parameters belong to this many experts, one after the other. The ranks of
  // an expert-parallel group share the experts evenly.
  size_t num_experts = 0;
};

// The kinds of operations on the tokens of a micro-batch. Letters: V vocabulary, T tokens in a
// sequence, C hidden size.
enum class OperationKind {
  token_embedding,     // looks up each token in a table (V, C), which begins the residual stream
  position_embedding,  // adds to each token the row of its position in a table (T, C)
  block,               // a transformer block; up to its second layernorm if it has experts
  router,              // chooses the experts of each token, which take the place of the block's MLP
  experts,             // runs each token through its experts, and adds to the residual stream
  final_norm,          // the layernorm before the classifier
  classifier           // logits over the vocabulary, and the loss
};

// One operation on the way through the model, and the unit whose parameters it uses. Several
// operations may use one unit: GPT-2's token embedding is also the weight of its classifier.
struct Operation {
  OperationKind kind;
  size_t unit;
  size_t index = 0;          // its number among operations of its kind; for experts, the block's
  double forward_flops = 0;  // FLOP of its matrix products in forward, for one token
  // How often tensor-parallel ranks sum a vector of C elements for each token, in forward and
  // backward together.
  size_t tensor_sums = 0;
  bool backward_reads_weights = false;   // whether it reads its weights in the backward pass
  bool starts_stage = true;              // whether a pipeline may be cut just before it
  std::vector<Sublayer> sublayers = {};  // of a block
};

// The unit of a classification head, as transformers names it (GPT2ForSequenceClassification).
inline constexpr const char* kHeadUnit = "score";

// A model: its units in the order of their first use, its operations in the order of forward.
struct ModelDescription {
  explicit ModelDescription(const ModelConfig& model_config) : config(model_config) {}

  ModelConfig config;
  std::vector<UnitSpec> units;
  std::vector<Operation> operations;

  // Returns the number of parameters. A unit counts once, however many operations use it.
  size_t num_parameters() const;
  size_t num_trained_parameters() const;  // without frozen ones
  // Returns the number of parameters that one token uses: of all E experts only k.
  size_t num_active_parameters() const;
  // Returns the first operation whose unit is trained, if only in part. Backward ends with it.
  size_t first_trained() const;
  // Returns the FLOP of the matrix products of forward and backward for one token: 6 for each
  // parameter that it uses, but for a table that is only looked up, and 12 L C T for attention with
  // L layers. [Chowdhery22 PaLM, appendix B] Forward has 2 of the 6 and 4 of the 12; the gradients
  // of the parameter and of its input have 2 each. A frozen parameter has no gradient, operations
  // before first_trained() have no backward, and a classifier that is it has no input's gradient.
  double flops_per_token() const;
};

// Returns the description of a model with L layers. GPT-2 has the units wte, wpe, h.0 to h.L-1 and
// ln_f, the Llama family embed_tokens, layers.0 to layers.L-1 and norm. Each unit has one
// operation. The last operation, the classifier, uses the first unit again; in an untied model it
// has a unit of its own at the end, lm_head, or score for labels. If block i has experts, the units
// h.i.router and h.i.experts follow h.i, which then has no MLP. Throws a UserError if config.frozen
// names nothing that exists, everything, or some parts of a linear layer without the others.
ModelDescription describe(const ModelConfig& config);

}  // namespace ladder
