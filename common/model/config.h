// The sizes of a model and the choices that make its family, and the presets that --model names.
// There are two families: GPT-2's [Radford19], and that of Llama [Touvron23], to which Qwen, SmolLM
// and Mixtral belong. A model has all of one family's choices; check_config() refuses mixtures.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rotary.h"

namespace ladder {

// Experts in place of the MLP of some transformer blocks. A router sends each token to a few of a
// block's experts, each of which is an MLP. [Shazeer17]
struct ExpertsConfig {
  size_t num_experts = 0;  // E: the experts of such a block; 0 = every block has an MLP
  size_t per_token = 1;    // k: how many of them a token goes to
  size_t every = 1;        // n: blocks n - 1, 2n - 1, ... have experts

  bool operator==(const ExpertsConfig&) const = default;
};

enum class Norm { layernorm, rmsnorm };
enum class Positions { learned, rotary };  // a table of embeddings, or turns of q and k
enum class MlpCore { gelu, swiglu };
// Which linear layers of a block have a bias: all, the one that computes q, k and v, or none.
enum class Biases { all, qkv, none };
enum class QkNorm { none, rmsnorm };  // of q and k, each head by itself

// The factor of low-rank adapters: alpha / r [Hu21], or alpha / sqrt(r) [Kalajdzievski23].
enum class LoraScale { standard, rslora };

// Low-rank adapters of some linear layers of every block: out = x W + b + s (x A^T) B^T, with A
// (r, inputs) and B (outputs, r). [Hu21 LoRA]
struct LoraConfig {
  size_t rank = 8;  // r
  double alpha = 16;
  LoraScale scale = LoraScale::standard;
  // The layers, in their order in a block: "attn.c_attn" (lora_targets() in lora.h).
  std::vector<std::string> targets = {};

  double factor() const;  // s

  bool operator==(const LoraConfig&) const = default;
};
// What the model learns: the next token of each, or the tokens that are hidden from it (masking.h
// in common/data). With `masked` every token sees its whole sequence. [Devlin18 BERT]
enum class Objective { causal, masked };

struct ModelConfig {
  size_t num_layers = 0;       // L
  size_t num_heads = 0;        // NH
  size_t hidden = 0;           // C
  size_t vocab_size = 0;       // V
  size_t sequence_length = 0;  // T: the model's positions, and the tokens of a training sequence

  ExpertsConfig experts = {};
  size_t ffn = 0;  // F: elements of an MLP's inner layer; 0 = 4 C
  // Whether the classifier has a weight of its own, (V, C), instead of the token embedding's table.
  bool untied = false;
  // What a classification head tells apart. Its weight, one row for each label, takes the place of
  // the classifier's; empty: there is no head, and the model predicts tokens.
  std::vector<std::string> labels = {};
  // The names of units and of parameters that are not trained ("wte", "h.0.mlp.c_fc.weight").
  std::vector<std::string> frozen = {};
  std::optional<LoraConfig> lora = {};  // the adapters; what they go with need not be frozen
  Objective objective = Objective::causal;

  // What follows makes the family (family.h has the flags). The defaults are GPT-2's.
  size_t key_value_heads = 0;  // heads of k and v, each for NH / so many of q; 0 = NH [Ainslie23]
  size_t head_size = 0;        // HS: elements of a head; 0 = C / NH
  Norm norm = Norm::layernorm;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::learned;
  double rope_theta = 10'000;
  std::optional<Llama3Scaling> rope_scaling = {};
  MlpCore mlp = MlpCore::gelu;
  Biases biases = Biases::all;
  QkNorm qk_norm = QkNorm::none;

  bool operator==(const ModelConfig&) const = default;

  bool is_gpt2() const { return norm == Norm::layernorm; }  // or of the Llama family
  size_t num_key_value_heads() const { return key_value_heads > 0 ? key_value_heads : num_heads; }
  // Those that one of so many tensor-parallel ranks has.
  size_t key_value_heads_of(size_t tensor_size) const {
    return num_key_value_heads() > tensor_size ? num_key_value_heads() / tensor_size : 1;
  }
  size_t head_columns() const { return head_size > 0 ? head_size : hidden / num_heads; }
  size_t query_columns() const { return num_heads * head_columns(); }            // of q, all heads
  size_t key_columns() const { return num_key_value_heads() * head_columns(); }  // of k; and of v
  bool is_masked() const { return objective == Objective::masked; }
  Rotary rotary() const { return {rope_theta, rope_scaling}; }
  size_t num_outputs() const { return labels.empty() ? vocab_size : labels.size(); }  // logits
  size_t ffn_size() const { return ffn > 0 ? ffn : 4 * hidden; }
  // Returns the same model in which no size is 0, which stands for a default.
  ModelConfig with_all_sizes() const {
    ModelConfig config = *this;
    config.ffn = ffn_size();
    config.key_value_heads = num_key_value_heads();
    config.head_size = head_columns();
    return config;
  }
  bool has_experts(size_t block) const {
    return experts.num_experts > 0 && (block + 1) % experts.every == 0;
  }
};

// A named size, with the defaults that suit it.
struct ModelPreset {
  std::string_view name;
  ModelConfig config;
  double learning_rate;  // the larger the model, the smaller [Brown20 GPT-3, table 2.1]
  size_t sample_tokens;  // how many tokens a run samples at its end
};

// Returns all presets: GPT-2's, from small to large, and then Llama's.
std::span<const ModelPreset> presets();

// Returns the preset called `name`. Throws a UserError that lists the names if there is none.
const ModelPreset& find_preset(std::string_view name);

// Throws UserError unless heads and sizes divide as they must, and all choices are one family's.
void check_config(const ModelConfig& config);

}  // namespace ladder
