#include "common/model/config.h"

#include <algorithm>

#include "common/model/family.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Llama's block [Touvron23]: biases nowhere, a classifier of its own.
constexpr ModelConfig llama(size_t layers, size_t heads, size_t hidden, size_t vocab,
                            size_t sequence_length, size_t key_value_heads, size_t ffn,
                            double theta) {
  ModelConfig config = {layers, heads, hidden, vocab, sequence_length};
  config.ffn = ffn;
  config.untied = true;
  config.key_value_heads = key_value_heads;
  config.norm = Norm::rmsnorm;
  config.positions = Positions::rotary;
  config.rope_theta = theta;
  config.mlp = MlpCore::swiglu;
  config.biases = Biases::none;
  return config;
}

constexpr ModelConfig tied(ModelConfig config) {
  config.untied = false;
  return config;
}

// Qwen3: q and k are normed. Heads have a size of their own.
constexpr ModelConfig qwen3(ModelConfig config, size_t head_size) {
  config.qk_norm = QkNorm::rmsnorm;
  config.head_size = head_size;
  config.norm_epsilon = 1e-6;
  return config;
}

// Qwen2: q, k and v have biases.
constexpr ModelConfig qwen2(ModelConfig config) {
  config.biases = Biases::qkv;
  config.norm_epsilon = 1e-6;
  return config;
}

constexpr ModelConfig scaled(ModelConfig config, const Llama3Scaling& scaling) {
  config.rope_scaling = scaling;
  return config;
}

// A mixture takes its experts from lesson 15's flags.
constexpr ModelConfig mixture(ModelConfig config, size_t num_experts, size_t per_token) {
  config.experts = {.num_experts = num_experts, .per_token = per_token};
  return config;
}

// The sizes are those of the models' papers and of their published config.json: GPT-2 [Radford19],
// GPT-3 [Brown20]; Llama 2 and 3 (meta-llama), SmolLM2 (HuggingFaceTB/SmolLM2-135M), Qwen2.5
// (Qwen/Qwen2.5-0.5B), Qwen3 (Qwen/Qwen3-0.6B), TinyLlama (TinyLlama/TinyLlama_v1.1), Mixtral
// (mistralai/Mixtral-8x7B-v0.1). nano and tiny are ours, and so is 70b: the sizes of Llama 2 70B in
// GPT-2's block. nano-llama and tiny-llama have as many parameters in a block as nano and tiny,
// biases and norms left out. Llama 3 405B is that of the first 8,192 tokens of context, as it was
// trained [Dubey24, section 3.4].
constexpr ModelPreset kPresets[] = {
    {"nano", {2, 2, 32, 256, 32}, 2e-3, 256},
    {"tiny", {4, 4, 128, 256, 128}, 2e-3, 256},
    {"gpt2", {12, 12, 768, 50257, 1024}, 6e-4, 32},
    {"gpt2-medium", {24, 16, 1024, 50257, 1024}, 3e-4, 32},
    {"gpt2-large", {36, 20, 1280, 50257, 1024}, 2.5e-4, 32},
    {"gpt2-xl", {48, 25, 1600, 50257, 1024}, 2e-4, 32},
    {"70b", {80, 64, 8192, 50257, 4096}, 1.5e-4, 32},
    {"gpt3-175b", {96, 96, 12288, 50257, 2048}, 6e-5, 32},
    {"nano-llama", tied(llama(2, 2, 32, 256, 32, 1, 96, 1e4)), 2e-3, 256},
    {"tiny-llama", tied(llama(4, 4, 128, 256, 128, 2, 384, 1e4)), 2e-3, 256},
    {"smollm2-135m", tied(llama(30, 9, 576, 49152, 8192, 3, 1536, 1e5)), 6e-4, 32},
    {"qwen2.5-0.5b", qwen2(tied(llama(24, 14, 896, 151936, 32768, 2, 4864, 1e6))), 3e-4, 32},
    {"qwen3-0.6b", qwen3(tied(llama(28, 16, 1024, 151936, 40960, 8, 3072, 1e6)), 128), 3e-4, 32},
    {"tinyllama-1.1b", llama(22, 32, 2048, 32000, 2048, 4, 5632, 1e4), 4e-4, 32},
    {"llama-3.2-1b",
     scaled(tied(llama(16, 32, 2048, 128256, 131072, 8, 8192, 5e5)), {.factor = 32}), 3e-4, 32},
    {"llama-2-7b", llama(32, 32, 4096, 32000, 4096, 32, 11008, 1e4), 3e-4, 32},
    {"llama-3-8b", llama(32, 32, 4096, 128256, 8192, 8, 14336, 5e5), 3e-4, 32},
    {"mixtral-8x7b", mixture(llama(32, 32, 4096, 32000, 32768, 8, 14336, 1e6), 8, 2), 3e-4, 32},
    {"llama-2-70b", llama(80, 64, 8192, 32000, 4096, 8, 28672, 1e4), 1.5e-4, 32},
    {"llama-3-70b", llama(80, 64, 8192, 128256, 8192, 8, 28672, 5e5), 1.5e-4, 32},
    {"llama-3-405b", llama(126, 128, 16384, 128256, 8192, 8, 53248, 5e5), 8e-5, 32},
};

// Throws UserError unless all choices are those of the Llama family.
void check_llama(const ModelConfig& config) {
  const auto refuse = [](const char* flag, const char* needs) {
    throw UserError(concat(flag, ": --norm rmsnorm goes with ", needs,
                           "; the families are not mixed, --model has presets of both"));
  };
  if (config.positions != Positions::rotary) refuse("--positions learned", "--positions rotary");
  if (config.mlp != MlpCore::swiglu) refuse("--mlp gelu", "--mlp swiglu");
  if (config.biases == Biases::all) refuse("--biases all", "--biases qkv or none");
  if (config.head_columns() % 2 != 0) {
    throw UserError(concat("--head-size ", config.head_columns(),
                           ": rotary positions turn pairs of elements; take an even size"));
  }
}

// Throws UserError unless all choices are GPT-2's, which are the defaults.
void check_gpt2(const ModelConfig& config) {
  const auto found = chosen(config);
  if (found.empty()) return;
  const auto& [choice, value] = found.front();
  throw UserError(concat(choice->flag(), " ", value,
                         ": goes with --norm rmsnorm; the families are ",
                         "not mixed, --model has presets of both"));
}

// Throws UserError unless there are no labels, or several that differ.
void check_labels(const ModelConfig& config) {
  const std::vector<std::string>& labels = config.labels;
  if (labels.empty()) return;
  if (labels.size() == 1) throw UserError("--labels: one label tells nothing apart; give more");
  if (config.untied) {
    throw UserError("--untied: the head of --labels takes the place of the classifier's weight");
  }
  for (const std::string& label : labels) {
    if (label.empty()) throw UserError("--labels: a label is empty");
    if (std::ranges::count(labels, label) > 1) {
      throw UserError(concat("--labels: ", label, " is there twice"));
    }
  }
}

}  // namespace

std::span<const ModelPreset> presets() { return kPresets; }

const ModelPreset& find_preset(std::string_view name) {
  std::string names;
  for (const ModelPreset& preset : kPresets) {
    if (preset.name == name) return preset;
    names += concat(names.empty() ? "" : ", ", preset.name);
  }
  throw UserError(concat("--model ", name, ": no such preset; there are ", names));
}

void check_config(const ModelConfig& config) {
  if (config.head_size == 0 && config.hidden % config.num_heads != 0) {
    throw UserError(
        concat("--heads ", config.num_heads, " does not divide --hidden ", config.hidden));
  }
  if (config.num_heads % config.num_key_value_heads() != 0) {
    throw UserError(concat("--key-value-heads ", config.key_value_heads,
                           " does not divide --heads ", config.num_heads));
  }
  config.is_gpt2() ? check_gpt2(config) : check_llama(config);
  check_labels(config);
}

}  // namespace ladder
