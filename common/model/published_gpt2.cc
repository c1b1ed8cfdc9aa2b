#include "common/model/published_families.h"
#include "kernels/layernorm.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

// One of the model's sizes.
struct Size {
  const char* key;
  size_t ModelConfig::*member;
  size_t published;  // what transformers takes if the key is missing: the smallest GPT-2's
};

constexpr Size kSizes[] = {
    {"n_layer", &ModelConfig::num_layers, 12},
    {"n_head", &ModelConfig::num_heads, 12},
    {"n_embd", &ModelConfig::hidden, 768},
    {"vocab_size", &ModelConfig::vocab_size, 50257},
    {"n_positions", &ModelConfig::sequence_length, 1024},
};

}  // namespace

PublishedModel read_gpt2(const PublishedFile& file) {
  file.expect("activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "GPT-2");
  file.expect("layer_norm_epsilon", {kLayernormEpsilon}, "GPT-2");
  file.expect("scale_attn_weights", {true}, "GPT-2");
  file.expect("scale_attn_by_inverse_layer_idx", {false}, "GPT-2");
  file.expect("add_cross_attention", {false}, "GPT-2");
  ModelConfig config;
  for (const Size& size : kSizes) config.*size.member = file.size(size.key, size.published);
  if (file.has("n_inner")) config.ffn = file.size("n_inner");
  if (config.ffn == 4 * config.hidden) config.ffn = 0;
  config.untied = !file.flag("tie_word_embeddings", true);
  return {config, "n_positions"};
}

Json gpt2_json(const ModelConfig& config) {
  Json json = {{"model_type", "gpt2"},
               {"architectures", {"GPT2LMHeadModel"}},
               {"activation_function", "gelu_new"},
               {"layer_norm_epsilon", kLayernormEpsilon},
               {"scale_attn_weights", true},
               {"scale_attn_by_inverse_layer_idx", false},
               {"add_cross_attention", false}};
  for (const Size& size : kSizes) json[size.key] = config.*size.member;
  json["n_ctx"] = config.sequence_length;  // an older name for n_positions
  json["n_inner"] = config.ffn == 0 ? Json(nullptr) : Json(config.ffn);  // null: 4 n_embd
  json["tie_word_embeddings"] = !config.untied;
  for (const char* dropout : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[dropout] = 0.0;
  return json;
}

}  // namespace ladder
