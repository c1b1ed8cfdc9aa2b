#include "common/model/sublayer.h"

#include <cmath>

#include "common/model/lora.h"
#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

// The 2 L weights that write to the residual stream start smaller, so that its size at the end
// does not depend on L. [Radford19]
double residual_deviation(const ModelConfig& config) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

std::vector<Sublayer> gpt2_sublayers(const ModelConfig& config) {
  const size_t c = config.hidden, f = config.ffn_size();
  const double last = residual_deviation(config);
  return {{.index = kAttention,
           .names = {"ln_1", "qkv", "attention", "middle"},
           .norm_name = "ln_1",
           .group = "attn",
           .norm = config.norm,
           .norm_epsilon = config.norm_epsilon,
           .first = {{{"c_attn", 3 * c}}, c, 3 * c, TensorSplit::qkv_columns, kInitialDeviation},
           .second = {{{"c_proj", c}}, c, c, TensorSplit::rows, last},
           .core = Core::attention,
           .num_heads = config.num_heads,
           .key_value_heads = config.num_heads},
          {.index = kMlp,
           .names = {"ln_2", "fc", "gelu", "out"},
           .norm_name = "ln_2",
           .group = "mlp",
           .norm = config.norm,
           .norm_epsilon = config.norm_epsilon,
           .first = {{{"c_fc", f}}, c, f, TensorSplit::columns, kInitialDeviation},
           .second = {{{"c_proj", c}}, f, c, TensorSplit::rows, last},
           .core = Core::gelu}};
}

std::vector<Sublayer> llama_sublayers(const ModelConfig& config) {
  const size_t c = config.hidden, f = config.ffn_size();
  const size_t q = config.query_columns(), k = config.key_columns();
  const size_t key_heads = config.num_key_value_heads();
  const double last = residual_deviation(config);
  return {{.index = kAttention,
           .names = {"norm_1", "qkv", "attention", "middle"},
           .norm_name = "input_layernorm",
           .group = "self_attn",
           .norm = config.norm,
           .norm_epsilon = config.norm_epsilon,
           .first = {.parts = {{"q_proj", q}, {"k_proj", k, key_heads}, {"v_proj", k, key_heads}},
                     .in = c,
                     .out = q + 2 * k,
                     .split = TensorSplit::rows,
                     .initial_deviation = kInitialDeviation,
                     .has_bias = config.biases == Biases::qkv,
                     .out_first = true},
           .second = {{{"o_proj", c}}, q, c, TensorSplit::columns, last, false, true},
           .core = Core::attention,
           .num_heads = config.num_heads,
           .key_value_heads = key_heads,
           .norms_heads = config.qk_norm == QkNorm::rmsnorm,
           .is_rotary = true},
          {.index = kMlp,
           .names = {"norm_2", "gate_up", "swiglu", "out"},
           .norm_name = "post_attention_layernorm",
           .group = "mlp",
           .norm = config.norm,
           .norm_epsilon = config.norm_epsilon,
           .first = {.parts = {{"gate_proj", f}, {"up_proj", f}},
                     .in = c,
                     .out = 2 * f,
                     .split = TensorSplit::rows,
                     .initial_deviation = kInitialDeviation,
                     .has_bias = false,
                     .out_first = true},
           .second = {{{"down_proj", c}}, f, c, TensorSplit::columns, last, false, true},
           .core = Core::swiglu}};
}

// Returns the weights by which a product multiplies, those of adapters too.
double weights_of(const Linear& linear) {
  double weights = number_of(linear.in * linear.out);
  for (const LinearPart& part : linear.parts) {
    if (part.is_adapted) weights += number_of(linear.adapter_rank * (linear.in + part.out));
  }
  return weights;
}

}  // namespace

size_t split_outputs(const std::vector<LinearPart>& parts, size_t tensor_size) {
  size_t outputs = 0;
  for (const LinearPart& part : parts) {
    outputs += part.out / num_slices(part.most_slices, tensor_size);
  }
  return outputs;
}

BlockOperations in_all_sublayers(SublayerOperation::Index operation) {
  BlockOperations operations;
  for (size_t sublayer = 0; sublayer < kNumSublayers; ++sublayer) {
    operations.set(number_of_operation(sublayer, operation));
  }
  return operations;
}

std::vector<Sublayer> sublayers_without_adapters(const ModelConfig& config) {
  std::vector<Sublayer> list = config.is_gpt2() ? gpt2_sublayers(config) : llama_sublayers(config);
  list[kAttention].mask = config.is_masked() ? AttentionMask::none : AttentionMask::causal;
  return list;
}

std::vector<Sublayer> dense_sublayers(const ModelConfig& config) {
  std::vector<Sublayer> sublayers = sublayers_without_adapters(config);
  if (config.lora) add_adapters(sublayers, *config.lora);
  return sublayers;
}

std::vector<Sublayer> sublayers_of(const ModelConfig& config, size_t block) {
  std::vector<Sublayer> sublayers = dense_sublayers(config);
  if (!config.has_experts(block)) return sublayers;
  Sublayer& mlp = sublayers[kMlp];
  mlp.num_experts = config.experts.num_experts;
  if (config.is_gpt2()) return sublayers;
  // Mixtral's names of gate, up and down.
  mlp.first.parts[0].name = "w1";
  mlp.first.parts[1].name = "w3";
  mlp.second.parts[0].name = "w2";
  return sublayers;
}

double product_flops(const Sublayer& sublayer, size_t num_tokens) {
  if (sublayer.num_experts > 0) return 0;
  const double linear = 2 * (weights_of(sublayer.first) + weights_of(sublayer.second));
  if (sublayer.core != Core::attention) return linear;
  // In each head q with k, and the probabilities with v.
  return linear + 4 * number_of(num_tokens) * number_of(sublayer.second.in);
}

double operation_flops(const Sublayer& sublayer, SublayerOperation::Index operation,
                       size_t tokens) {
  const Linear &first = sublayer.first, &second = sublayer.second;
  switch (operation) {
    case SublayerOperation::norm:
      return (sublayer.norm == Norm::layernorm ? 8 : 4) * number_of(first.in);
    case SublayerOperation::first: {
      const double biases = first.has_bias ? number_of(first.out) : 0;
      // Of each element of q and k.
      const double on_heads = (sublayer.norms_heads ? 4 : 0) + (sublayer.is_rotary ? 3 : 0);
      return 2 * weights_of(first) + biases +
             (on_heads > 0 ? on_heads * number_of(first.parts[0].out + first.parts[1].out) : 0);
    }
    case SublayerOperation::core:
      if (sublayer.core == Core::gelu) return 8 * number_of(second.in);
      if (sublayer.core == Core::swiglu) return 5 * number_of(second.in);
      return (4 * number_of(second.in) + number_of(sublayer.num_heads)) *
             keys_seen(sublayer.mask, tokens);
    default:
      return 2 * weights_of(second) + (second.has_bias ? 2 : 1) * number_of(second.out);
  }
}

}  // namespace ladder
