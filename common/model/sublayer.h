// What a transformer block is: a list of sublayers on the residual stream [Radford19, pre-norm].
//   out = in + second(core(first(norm(in))))
// `first` and `second` are linear layers. A block has two sublayers: the core of the first is
// attention, and that of the second, the MLP, is GELU or SwiGLU. All that is said of a block
// elsewhere follows from the list: parameters, activations, FLOP, what tensor-parallel ranks sum
// and split. Inside a block families (config.h) differ in what the list says; embeddings, names and
// files differ, too. q and k are normed and turned, if at all, in place and as a part of `first`.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <vector>

#include "common/model/config.h"
#include "common/model/linear_layer.h"
#include "kernels/attention_mask.h"

namespace ladder {

// What lies between the two linear layers. SwiGLU's input has two halves (kernels/swiglu.h).
enum class Core { attention, gelu, swiglu };

// The operations of a sublayer's forward, in order; `second` adds to the residual stream, too.
struct SublayerOperation {
  enum Index : size_t { norm, first, core, second, kCount };
};
// The parameters of a sublayer, in their order in its block's unit. A sublayer may lack some. Those
// of a linear layer follow its weight, as in LinearParameter.
struct SublayerParameter {
  enum Index : size_t {
    norm_weight,
    norm_bias,
    first_weight,
    first_bias,
    query_norm = first_weight + LinearParameter::kCount,
    key_norm,
    second_weight,
    second_bias,
    kCount = second_weight + LinearParameter::kCount
  };
};
// The parameters of an expert, which is an MLP without its norm, in their order in the unit of its
// block's experts: expert e has them from e * kCount on. An expert may lack some.
struct ExpertParameter {
  enum Index : size_t {
    first_weight,
    first_bias,
    second_weight = LinearParameter::kCount,
    second_bias,
    kCount = 2 * LinearParameter::kCount
  };
};
// What a sublayer's forward saves for backward: the outputs of its operations, mean and rstd of the
// norm, q's and k's heads before their norms, with rstd, and statistics: attention's logsumexp.
struct SublayerActivation {
  enum Index : size_t { norm, mean, rstd, first, heads, head_rstd, statistics, core, out, kCount };
};

inline constexpr size_t kNumSublayers = 2;  // of a block
inline constexpr size_t kAttention = 0, kMlp = 1;

// Operations of a block. Operation k of sublayer s has number 4 s + k.
using BlockOperations = std::bitset<kNumSublayers * SublayerOperation::kCount>;
// The last operation, which computes the block's output.
inline constexpr size_t kBlockOutput = kNumSublayers * SublayerOperation::kCount - 1;
constexpr size_t number_of_operation(size_t sublayer, SublayerOperation::Index operation) {
  return sublayer * SublayerOperation::kCount + operation;
}
inline constexpr size_t kAttentionCore = number_of_operation(kAttention, SublayerOperation::core);
// Returns this operation of every sublayer.
BlockOperations in_all_sublayers(SublayerOperation::Index operation);

struct Sublayer {
  size_t index;  // in its block
  // The names of its operations' outputs: "ln_1", "qkv", "attention", "middle".
  std::array<const char*, SublayerOperation::kCount> names;
  const char* norm_name;  // of the norm's parameters: "ln_1"
  const char* group;      // of the linear layers' parameters: "attn"
  Norm norm;
  double norm_epsilon;  // of the heads' norms, too
  Linear first, second;
  Core core;
  size_t num_heads = 0;                        // of attention
  size_t key_value_heads = 0;                  // of attention, for k and for v
  AttentionMask mask = AttentionMask::causal;  // of attention
  bool norms_heads = false;  // whether q and k are normed, head by head (kernels/head_norm.h)
  bool is_rotary = false;    // whether q and k are turned by their positions (kernels/rotary.h)
  // If it is not 0, a router and so many copies of first, core and second take their place. They
  // are operations of their own, and have units of their own. [Shazeer17]
  size_t num_experts = 0;

  size_t operation(SublayerOperation::Index i) const { return number_of_operation(index, i); }
  size_t parameter(SublayerParameter::Index i) const {
    return index * SublayerParameter::kCount + i;
  }
  size_t head_size() const { return second.in / num_heads; }  // of attention
};

// Returns the sublayers of a block without experts, and those of block `block` of the model.
std::vector<Sublayer> sublayers_without_adapters(const ModelConfig& config);  // nor experts
std::vector<Sublayer> dense_sublayers(const ModelConfig& config);
std::vector<Sublayer> sublayers_of(const ModelConfig& config, size_t block);

// Returns the FLOP of the matrix products of forward for one token of a sequence of num_tokens. Of
// experts it is what lies in the block itself: nothing. Attention counts the half that a causal
// mask hides, too, as is usual.
double product_flops(const Sublayer& sublayer, size_t num_tokens);
// Returns all FLOP of an operation for one token, the mean over the sequence: 2 for each weight of
// a product, and for each element of all else what the kernels count (keys_seen() of the keys).
double operation_flops(const Sublayer& sublayer, SublayerOperation::Index operation, size_t tokens);

}  // namespace ladder
