#include "common/model/published_config.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "common/io/json_file.h"
#include "common/io/printable.h"
#include "kernels/layernorm.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBytes = size_t{1} << 20;

// One of the model's sizes.
struct Size {
  const char* key;   // in config.json
  const char* flag;  // on the command line
  size_t ModelConfig::*member;
  size_t published;  // what transformers takes if the key is missing: the smallest GPT-2's
};

constexpr Size kSizes[] = {
    {"n_layer", "--layers", &ModelConfig::num_layers, 12},
    {"n_head", "--heads", &ModelConfig::num_heads, 12},
    {"n_embd", "--hidden", &ModelConfig::hidden, 768},
    {"vocab_size", "--vocab", &ModelConfig::vocab_size, 50257},
    {"n_positions", "--sequence-length", &ModelConfig::sequence_length, 1024},
};

// What this GPT-2 computes. The first value of each key is the one that transformers takes if the
// key is missing; the others mean the same.
const std::vector<std::pair<std::string, std::vector<Json>>>& computed() {
  static const std::vector<std::pair<std::string, std::vector<Json>>> values = {
      {"model_type", {"gpt2"}},
      {"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
      {"layer_norm_epsilon", {kLayernormEpsilon}},
      {"scale_attn_weights", {true}},
      {"scale_attn_by_inverse_layer_idx", {false}},
      {"add_cross_attention", {false}},
  };
  return values;
}

[[noreturn]] void refuse(const std::string& path, const std::string& key, const std::string& why) {
  throw UserError(concat(path, ": ", key, " is ", why));
}

size_t size_in(const std::string& path, const std::string& key, const nlohmann::json& value) {
  constexpr size_t kMaxSize = 1'000'000'000;
  if (!value.is_number_unsigned() || value < 1 || value > kMaxSize) {
    refuse(path, key, concat(shown(value), ", expected a whole number from 1"));
  }
  return value;
}

}  // namespace

std::string published_config(const ModelConfig& config, std::optional<int32_t> end_of_text) {
  Json json = {{"architectures", {"GPT2LMHeadModel"}}};
  for (const auto& [key, values] : computed()) json[key] = values[0];
  for (const Size& size : kSizes) json[size.key] = config.*size.member;
  json["n_ctx"] = config.sequence_length;  // an older name for n_positions
  json["n_inner"] = config.ffn == 0 ? Json(nullptr) : Json(config.ffn);  // null: 4 n_embd
  json["tie_word_embeddings"] = !config.untied;
  json["initializer_range"] = 0.02;
  for (const char* dropout : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[dropout] = 0.0;
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    json[token] = end_of_text ? Json(*end_of_text) : Json(nullptr);
  }
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

ModelConfig read_published_config(const std::string& path) {
  const nlohmann::json json = read_json_object(path, kMaxBytes);
  for (const auto& [key, values] : computed()) {
    const auto found = json.find(key);
    const auto is_found = [&](const Json& value) { return *found == nlohmann::json(value); };
    if (found == json.end() || std::ranges::any_of(values, is_found)) continue;
    refuse(path, key, concat(shown(*found), ", this program's GPT-2 has ", values[0].dump()));
  }
  ModelConfig config;
  for (const Size& size : kSizes) {
    config.*size.member =
        size_in(path, size.key, json.value(size.key, nlohmann::json(size.published)));
  }
  const nlohmann::json inner = json.value("n_inner", nlohmann::json());
  if (!inner.is_null()) config.ffn = size_in(path, "n_inner", inner);
  const nlohmann::json tied = json.value("tie_word_embeddings", nlohmann::json(true));
  if (!tied.is_boolean()) {
    refuse(path, "tie_word_embeddings", concat(shown(tied), ", expected true or false"));
  }
  config.untied = !tied.get<bool>();
  return config;
}

std::optional<size_t> published_end_of_text(const std::string& path) {
  const nlohmann::json json = read_json_object(path, kMaxBytes);
  nlohmann::json end = json.value("eos_token_id", nlohmann::json());
  if (end.is_array() && !end.empty()) end = nlohmann::json(end[0]);
  if (!end.is_number_unsigned()) return std::nullopt;
  return end.get<size_t>();
}

void require_same_model(const std::string& path, const ModelConfig& published,
                        const ModelConfig& config) {
  for (const Size& size : kSizes) {
    const size_t theirs = published.*size.member, ours = config.*size.member;
    const bool is_positions = size.member == &ModelConfig::sequence_length;
    if (theirs == ours || (is_positions && theirs > ours)) continue;
    refuse(path, size.key, concat(theirs, ", but the model has ", size.flag, " ", ours));
  }
  if (published.ffn_size() != config.ffn_size()) {
    refuse(path, "n_inner",
           concat(published.ffn_size(), ", but the model has --ffn ", config.ffn_size()));
  }
  if (published.untied != config.untied) {
    refuse(path, "tie_word_embeddings",
           published.untied ? "false; add --untied" : "true; leave --untied out");
  }
}

}  // namespace ladder
