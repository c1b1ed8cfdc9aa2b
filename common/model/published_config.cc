#include "common/model/published_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "common/io/json_file.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/model/published_families.h"
#include "common/model/sublayer.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

PublishedModel read(const PublishedFile& file) {
  const std::string type = file.text("model_type", "gpt2");
  if (type == "gpt2") return read_gpt2(file);
  if (is_llama_type(type)) return read_llama(file);
  file.refuse("model_type",
              concat(Json(type).dump(-1, ' ', true), ", this program has gpt2, ", llama_types()));
}

Json to_json(const ModelConfig& config) {
  return config.is_gpt2() ? gpt2_json(config) : llama_json(config);
}

// Returns the flag that sets the value of a key.
std::string flag_of(const std::string& key) {
  static const std::map<std::string, const char*> flags = {
      {"n_layer", "--layers"},
      {"num_hidden_layers", "--layers"},
      {"n_head", "--heads"},
      {"num_attention_heads", "--heads"},
      {"n_embd", "--hidden"},
      {"hidden_size", "--hidden"},
      {"n_inner", "--ffn"},
      {"intermediate_size", "--ffn"},
      {"vocab_size", "--vocab"},
      {"num_key_value_heads", "--key-value-heads"},
      {"head_dim", "--head-size"},
      {"rms_norm_eps", "--norm-epsilon"},
      {"rope_theta", "--rope-theta"},
      {"rope_scaling", "--rope-scaling"},
      {"num_local_experts", "--experts"},
      {"num_experts_per_tok", "--experts-per-token"},
  };
  const auto found = flags.find(key);
  return found == flags.end() ? std::string() : concat(found->second, " ");
}

}  // namespace

std::string published_config(const ModelConfig& config, std::optional<int32_t> end_of_text) {
  Json json = to_json(config);
  json["initializer_range"] = kInitialDeviation;
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    json[token] = end_of_text ? Json(*end_of_text) : Json(nullptr);
  }
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

void require_publishable(const std::string& path, const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  const auto refuse = [&](const std::string& why) { throw UserError(concat(path, ": ", why)); };
  // A config.json cannot say so: whoever opens it would compute causal attention with the weights.
  if (config.is_masked()) {
    refuse(
        "the model is trained with --objective masked, and tokens see only earlier ones in "
        "models of transformers with these names");
  }
  const bool norms_heads = config.qk_norm == QkNorm::rmsnorm;
  if (norms_heads && config.biases != Biases::none) {
    refuse("the model has norms of q and k and biases, and a Qwen3 of transformers has no biases");
  }
  if (experts.num_experts == 0) return;
  if (config.is_gpt2()) refuse("the model has experts, and a GPT-2 of transformers has none");
  if (config.biases != Biases::none) {
    refuse("the model has experts and biases, and a Mixtral of transformers has no biases");
  }
  if (norms_heads) {
    refuse(
        "the model has experts and norms of q and k, and a Mixtral of transformers has no such "
        "norms");
  }
  if (experts.every != 1) {
    refuse(concat("--moe-every ", experts.every,
                  ": in a Mixtral of transformers every block has experts"));
  }
  if (experts.per_token > 1) return;
  refuse(
      "--experts-per-token 1: Mixtral gives a single expert the weight 1, and this program its "
      "probability");
}

ModelConfig read_published_config(const std::string& path) {
  const ModelConfig config = read(PublishedFile(path)).config;
  named_by(concat(path, ":").c_str(), [&] { check_config(config); });
  return config;
}

std::optional<size_t> published_end_of_text(const std::string& path) {
  const nlohmann::json json = read_json_object(path, kMaxPublishedBytes);
  nlohmann::json end = json.value("eos_token_id", nlohmann::json());
  if (end.is_array() && !end.empty()) end = nlohmann::json(end[0]);
  if (!end.is_number_unsigned()) return std::nullopt;
  return end.get<size_t>();
}

void require_same_model(const std::string& path, const ModelConfig& config) {
  const PublishedFile file(path);
  const PublishedModel published = read(file);
  const size_t positions = published.config.sequence_length;
  const ModelConfig ours = config.with_all_sizes();
  ModelConfig theirs = published.config.with_all_sizes();
  theirs.sequence_length = ours.sequence_length;
  if (!ours.labels.empty()) theirs.untied = ours.untied;  // a head takes that weight's place
  const Json their_json = to_json(theirs), our_json = to_json(ours);
  for (const auto& [key, value] : their_json.items()) {
    const Json our_value = our_json.value(key, Json());
    if (value == our_value) continue;
    if (key == "tie_word_embeddings") {
      file.refuse(key, theirs.untied ? "false; add --untied" : "true; leave --untied out");
    }
    file.refuse(key, concat(value.dump(), ", but the model has ", flag_of(key), our_value.dump()));
  }
  if (positions < ours.sequence_length) {
    file.refuse(published.positions,
                concat(positions, ", but the model has --sequence-length ", ours.sequence_length));
  }
}

}  // namespace ladder
