#include "common/model/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/io/json_file.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/model/lora.h"
#include "common/model/published_families.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr const char* kWho = "LoRA";

// What has any value: it says who wrote the file, or is only used to train.
constexpr std::array<std::string_view, 12> kWithoutEffect = {
    "auto_mapping",        "base_model_name_or_path",
    "fan_in_fan_out",      "inference_mode",
    "megatron_core",       "peft_version",
    "qalora_group_size",   "revision",
    "runtime_config",      "task_type",
    "ensure_weight_tying", "megatron_config"};
// What is read below.
constexpr std::array<std::string_view, 9> kRead = {
    "peft_type",      "r",    "lora_alpha",        "use_rslora",
    "target_modules", "bias", "init_lora_weights", "lora_dropout",
    "modules_to_save"};

bool is_off(const Json& value) {
  if (value.is_null() || ((value.is_object() || value.is_array()) && value.empty())) return true;
  return value == false || value == 0;
}

// Throws unless all other settings are off: a new kind of adapter is a new key.
void check_other_keys(const PublishedFile& file, const Json& json) {
  const auto is_in = [](const auto& keys, const std::string& key) {
    return std::ranges::find(keys, key) != keys.end();
  };
  for (const auto& [key, value] : json.items()) {
    if (is_in(kWithoutEffect, key) || is_in(kRead, key) || is_off(value)) continue;
    file.refuse(one_line(key), concat(shown(value), ", this program's LoRA has no such setting"));
  }
}

// Returns the layers that "target_modules" lists. peft adapts every layer whose name ends so.
std::vector<std::string> read_targets(const PublishedFile& file, const Json& json,
                                      const ModelConfig& model) {
  const Json value = json.value("target_modules", Json());
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_text)) {
    file.refuse("target_modules", concat(shown(value), ", expected a list of layers' names"));
  }
  std::string list;
  for (const Json& item : value) {
    const auto name = item.get<std::string>();
    std::vector<std::string> layers;
    try {
      layers = lora_targets(model, name);
    } catch (const UserError&) {
    }
    // Not one of our short names, which peft does not know.
    const bool is_published = std::ranges::all_of(layers, [&](const std::string& layer) {
      return layer == name || layer.ends_with("." + name);
    });
    if (layers.empty() || !is_published || name.find(',') != name.npos) {
      file.refuse("target_modules",
                  concat(shown(value), ", and no block of the model has a ", quoted_name(name)));
    }
    list += (list.empty() ? "" : ",") + name;
  }
  return lora_targets(model, list);
}

}  // namespace

std::string adapter_prefix(const ModelConfig& model) {
  return model.is_gpt2() ? kGpt2AdapterPrefix : kAdapterPrefix;
}

void check_adapter_files(const ModelConfig& model) {
  if (!adapts_experts(model)) return;
  throw UserError(
      "adapters of experts: peft's target_modules names layers, and transformers keeps a block's "
      "experts in one tensor; leave the MLP's layers out of --lora-targets");
}

std::string adapter_config(const ModelConfig& model, const std::string& base) {
  const LoraConfig& lora = *model.lora;
  const bool is_whole = lora.alpha == std::floor(lora.alpha);
  nlohmann::ordered_json json = {{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"}};
  json["base_model_name_or_path"] = base.empty() ? Json(nullptr) : Json(printable(base));
  json["r"] = lora.rank;
  json["lora_alpha"] = is_whole ? Json(static_cast<int64_t>(lora.alpha)) : Json(lora.alpha);
  json["use_rslora"] = lora.scale == LoraScale::rslora;
  json["target_modules"] = lora.targets;
  json["lora_dropout"] = 0.0;
  json["bias"] = "none";
  json["fan_in_fan_out"] = model.is_gpt2();  // GPT-2's weights are stored (in, out)
  json["init_lora_weights"] = true;
  json["modules_to_save"] = nullptr;
  json["use_dora"] = false;
  json["inference_mode"] = true;
  return json.dump(2) + "\n";
}

LoraConfig read_adapter_config(const std::string& folder, const ModelConfig& model) {
  const std::string path = concat(folder, "/", kAdapterConfig);
  const PublishedFile file(path);
  const Json json = read_json_object(path, kMaxPublishedBytes);
  file.expect("peft_type", {"LORA"}, "adapter");
  file.expect("lora_dropout", {0.0}, kWho);
  file.expect("bias", {"none"}, kWho);
  file.expect("modules_to_save", {nullptr, Json::array()}, kWho);
  // The others begin with a base whose weights they change.
  file.expect("init_lora_weights", {true, false, "gaussian"}, kWho);
  check_other_keys(file, json);
  LoraConfig lora = {
      .rank = file.size("r"),
      .alpha = file.number("lora_alpha", 8),  // peft's default
      .scale = file.flag("use_rslora", false) ? LoraScale::rslora : LoraScale::standard,
      .targets = read_targets(file, json, model)};
  ModelConfig adapted = model;
  adapted.lora = lora;
  named_by(concat(path, ":").c_str(), [&] {
    check_lora(adapted);
    check_adapter_files(adapted);
  });
  return lora;
}

}  // namespace ladder
