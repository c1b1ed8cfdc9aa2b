#include <algorithm>

#include "common/model/published_families.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

// A model type of the family: what it fixes, and what transformers takes for a key that is missing.
struct Type {
  const char* name;  // "model_type" in the file
  const char* architecture;
  Biases biases;
  QkNorm qk_norm;
  bool has_experts;
  size_t key_value_heads;  // 0: as many as heads
  size_t head_size;        // 0: hidden size / heads
  double epsilon, theta;
  // Tokens see so many tokens, themselves included; 0: all. Some types need a flag for it.
  bool always_has_window;
  size_t window;
};

constexpr Type kTypes[] = {
    {"llama", "LlamaForCausalLM", Biases::none, QkNorm::none, false, 0, 0, 1e-6, 1e4, false, 0},
    {"qwen2", "Qwen2ForCausalLM", Biases::qkv, QkNorm::none, false, 32, 0, 1e-6, 1e4, false, 4096},
    {"qwen3", "Qwen3ForCausalLM", Biases::none, QkNorm::rmsnorm, false, 32, 128, 1e-6, 1e4, false,
     4096},
    {"mistral", "MistralForCausalLM", Biases::none, QkNorm::none, false, 8, 0, 1e-6, 1e4, true,
     4096},
    {"mixtral", "MixtralForCausalLM", Biases::none, QkNorm::none, true, 8, 0, 1e-5, 1e6, true, 0},
};

const Type* find_type(const std::string& name) {
  const auto found = std::ranges::find(kTypes, name, &Type::name);
  return found == std::end(kTypes) ? nullptr : found;
}

// Returns the type that a model is published as. A Llama's heads divide the hidden size in
// transformers, a Mistral's need not.
const Type& type_of(const ModelConfig& config) {
  if (config.experts.num_experts > 0) return *find_type("mixtral");
  if (config.qk_norm == QkNorm::rmsnorm) return *find_type("qwen3");
  if (config.biases == Biases::qkv) return *find_type("qwen2");
  return *find_type(config.hidden % config.num_heads == 0 ? "llama" : "mistral");
}

// One of the model's sizes. All files have these.
struct Size {
  const char* key;
  size_t ModelConfig::*member;
};

constexpr Size kSizes[] = {
    {"num_hidden_layers", &ModelConfig::num_layers},
    {"num_attention_heads", &ModelConfig::num_heads},
    {"hidden_size", &ModelConfig::hidden},
    {"intermediate_size", &ModelConfig::ffn},
    {"vocab_size", &ModelConfig::vocab_size},
    {"max_position_embeddings", &ModelConfig::sequence_length},
};

// Sets what one of the objects `rope_scaling` and `rope_parameters` says.
void read_scaling(const PublishedFile& file, const std::string& who, ModelConfig& config) {
  const char* const key = file.has("rope_type") ? "rope_type" : "type";  // older files have "type"
  file.expect(key, {"llama3", "default"}, who);
  file.expect("partial_rotary_factor", {1.0}, who);
  config.rope_theta = file.number("rope_theta", config.rope_theta);
  if (file.text(key, "default") == "default") {
    return file.expect_only({"rope_type", "type", "rope_theta", "partial_rotary_factor"}, who);
  }
  file.expect_only({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor",
                    "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
                   who);
  const Llama3Scaling s = {
      .factor = file.number("factor"),
      .low_freq_factor = file.number("low_freq_factor"),
      .high_freq_factor = file.number("high_freq_factor"),
      .original_positions = file.size("original_max_position_embeddings"),
  };
  if (s.low_freq_factor >= s.high_freq_factor) {
    file.refuse("low_freq_factor", concat(s.low_freq_factor, ", expected less than ",
                                          s.high_freq_factor, ", high_freq_factor"));
  }
  config.rope_scaling = s;
}

// Sets base and scaling of rotary positions, as transformers 4 writes them (rope_theta and
// rope_scaling) or 5 (rope_parameters). If a file has both objects, transformers takes the former.
void read_rotary(const PublishedFile& file, const Type& type, ModelConfig& config) {
  file.expect("partial_rotary_factor", {1.0, nullptr}, type.name);
  config.rope_theta = file.number("rope_theta", type.theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (file.has(key)) return read_scaling(file.in(key), type.name, config);
  }
}

void read_experts(const PublishedFile& file, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.num_experts = file.size("num_local_experts", 8);
  experts.per_token = file.size("num_experts_per_tok", 2);
  if (experts.per_token > experts.num_experts) {
    file.refuse("num_experts_per_tok",
                concat(experts.per_token, ", but num_local_experts is ", experts.num_experts));
  }
  if (experts.per_token > 1) return;
  file.refuse("num_experts_per_tok",
              "1, expected at least 2: Mixtral gives a single expert the weight 1, and this "
              "program its probability");
}

// Returns how many tokens a token sees, itself included; 0: all.
size_t window_of(const PublishedFile& file, const Type& type) {
  const bool has_window = type.always_has_window || file.flag("use_sliding_window", false);
  if (!has_window || file.is_null("sliding_window")) return 0;
  return file.size("sliding_window", type.window);
}

}  // namespace

bool is_llama_type(const std::string& type) { return find_type(type) != nullptr; }

std::string llama_types() {
  std::string names;
  for (const Type& type : kTypes) names += concat(names.empty() ? "" : ", ", type.name);
  return names;
}

PublishedModel read_llama(const PublishedFile& file) {
  const Type& type = *find_type(file.text("model_type", ""));
  file.expect("hidden_act", {"silu", "swish"}, type.name);
  file.expect("mlp_bias", {false}, type.name);
  if (type.biases == Biases::none) file.expect("attention_bias", {false}, type.name);
  file.expect("quantization_config", {nullptr}, type.name);
  ModelConfig config;
  for (const Size& size : kSizes) config.*size.member = file.size(size.key);
  config.norm = Norm::rmsnorm;
  config.positions = Positions::rotary;
  config.mlp = MlpCore::swiglu;
  config.biases = type.biases;
  config.qk_norm = type.qk_norm;
  config.untied = !file.flag("tie_word_embeddings", false);
  config.norm_epsilon = file.number("rms_norm_eps", type.epsilon);
  read_rotary(file, type, config);
  if (!file.is_null("num_key_value_heads")) {
    config.key_value_heads = file.size(
        "num_key_value_heads", type.key_value_heads > 0 ? type.key_value_heads : config.num_heads);
  }
  config.head_size = type.head_size;
  if (file.has("head_dim")) config.head_size = file.size("head_dim");
  if (type.has_experts) read_experts(file, config);
  // Defaults are written as such, so that models with the same sizes are equal.
  if (config.key_value_heads == config.num_heads) config.key_value_heads = 0;
  if (config.head_size * config.num_heads == config.hidden) config.head_size = 0;
  if (config.ffn == 4 * config.hidden) config.ffn = 0;
  // In so many tokens as a window is long, it hides nothing: they are the model's positions.
  const size_t window = window_of(file, type);
  if (window == 0 || window >= config.sequence_length) return {config, "max_position_embeddings"};
  config.sequence_length = window;
  return {config, "sliding_window"};
}

Json llama_json(const ModelConfig& config) {
  const Type& type = type_of(config);
  Json json = {
      {"model_type", type.name}, {"architectures", {type.architecture}}, {"hidden_act", "silu"}};
  for (const Size& size : kSizes) json[size.key] = config.*size.member;
  json["intermediate_size"] = config.ffn_size();
  json["num_key_value_heads"] = config.num_key_value_heads();
  json["head_dim"] = config.head_columns();
  json["rms_norm_eps"] = config.norm_epsilon;
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = nullptr;
  if (const std::optional<Llama3Scaling>& s = config.rope_scaling) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", s->factor},
                            {"low_freq_factor", s->low_freq_factor},
                            {"high_freq_factor", s->high_freq_factor},
                            {"original_max_position_embeddings", s->original_positions}};
  }
  json["tie_word_embeddings"] = !config.untied;
  json["attention_bias"] = config.biases == Biases::qkv;
  json["mlp_bias"] = false;
  json["use_sliding_window"] = false;
  json["sliding_window"] = nullptr;
  json["attention_dropout"] = 0.0;
  if (type.has_experts) {
    json["num_local_experts"] = config.experts.num_experts;
    json["num_experts_per_tok"] = config.experts.per_token;
  }
  return json;
}

}  // namespace ladder
