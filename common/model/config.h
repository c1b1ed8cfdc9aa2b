// The sizes of a GPT-2, and the presets that --model names.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// Experts in place of the MLP of some transformer blocks. A router sends each token to a few of a
// block's experts, each of which is an MLP. [Shazeer17]
struct ExpertsConfig {
  size_t num_experts = 0;  // E: the experts of such a block; 0 = every block has an MLP
  size_t per_token = 1;    // k: how many of them a token goes to
  size_t every = 1;        // n: blocks n - 1, 2n - 1, ... have experts

  bool operator==(const ExpertsConfig&) const = default;
};

struct Gpt2Config {
  size_t num_layers = 0;       // L
  size_t num_heads = 0;        // NH
  size_t hidden = 0;           // C
  size_t vocab_size = 0;       // V
  size_t sequence_length = 0;  // T: the model's positions, and the tokens of a training sequence

  ExpertsConfig experts = {};
  size_t ffn = 0;  // F: elements of an MLP's inner layer; 0 = 4 C
  // Whether the classifier has a weight of its own, (V, C), instead of the token embedding's table.
  bool untied = false;
  // The names of units and of parameters that are not trained ("wte", "h.0.mlp.c_fc.weight").
  std::vector<std::string> frozen = {};

  bool operator==(const Gpt2Config&) const = default;

  size_t head_size() const { return hidden / num_heads; }
  size_t ffn_size() const { return ffn > 0 ? ffn : 4 * hidden; }
  bool has_experts(size_t block) const {
    return experts.num_experts > 0 && (block + 1) % experts.every == 0;
  }
};

// A named size, with the defaults that suit it.
struct Gpt2Preset {
  std::string_view name;
  Gpt2Config config;
  double learning_rate;  // the larger the model, the smaller [Brown20 GPT-3, table 2.1]
  size_t sample_tokens;  // how many tokens a run samples at its end
};

inline constexpr std::array<Gpt2Preset, 8> kGpt2Presets = {{
    {"nano", {2, 2, 32, 256, 32}, 2e-3, 256},
    {"tiny", {4, 4, 128, 256, 128}, 2e-3, 256},
    {"gpt2", {12, 12, 768, 50257, 1024}, 6e-4, 32},
    {"gpt2-medium", {24, 16, 1024, 50257, 1024}, 3e-4, 32},
    {"gpt2-large", {36, 20, 1280, 50257, 1024}, 2.5e-4, 32},
    {"gpt2-xl", {48, 25, 1600, 50257, 1024}, 2e-4, 32},
    {"70b", {80, 64, 8192, 50257, 4096}, 1.5e-4, 32},
    {"gpt3-175b", {96, 96, 12288, 50257, 2048}, 6e-5, 32},
}};

// Returns the preset called `name`. Throws a UserError that lists the names if there is none.
const Gpt2Preset& find_preset(std::string_view name);

// Throws UserError unless every size is in its range and the heads divide the hidden size.
void check_config(const Gpt2Config& config);

}  // namespace ladder
