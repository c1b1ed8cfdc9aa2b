// The file adapter_config.json of peft, written and read, and the weights beside it.
#include "common/model/adapter_config.h"

#include <nlohmann/json.hpp>
#include <random>

#include "common/io/safetensors.h"
#include "common/model/lora.h"
#include "kernels/runtime/check.h"
#include "tests/common/io/test_files.h"
#include "tests/common/model/support.h"
#include "tests/sample.h"

namespace ladder::testing {
namespace {

using Json = nlohmann::json;

ModelConfig model_with(const LoraConfig& lora, bool is_gpt2 = true) {
  ModelConfig model = {
      .num_layers = 2, .num_heads = 3, .hidden = 12, .vocab_size = 37, .sequence_length = 11};
  if (!is_gpt2) model = llama_like(model);
  model.lora = lora;
  return model;
}

const LoraConfig kLora = {.rank = 4, .alpha = 6.5, .targets = {"attn.c_attn", "mlp.c_proj"}};

TEST_CASE("adapter_config.json is what peft 0.21 opened, and is read as it was written") {
  const TestFolder folder;
  const std::string text = adapter_config(model_with(kLora), "out");
  CHECK(Json::parse(text) == Json{{"peft_type", "LORA"},
                                  {"task_type", "CAUSAL_LM"},
                                  {"base_model_name_or_path", "out"},
                                  {"r", 4},
                                  {"lora_alpha", 6.5},
                                  {"use_rslora", false},
                                  {"target_modules", {"attn.c_attn", "mlp.c_proj"}},
                                  {"lora_dropout", 0.0},
                                  {"bias", "none"},
                                  {"fan_in_fan_out", true},
                                  {"init_lora_weights", true},
                                  {"modules_to_save", nullptr},
                                  {"use_dora", false},
                                  {"inference_mode", true}});
  folder.write(kAdapterConfig, text);
  CHECK(read_adapter_config(folder.path(), model_with(kLora)) == kLora);

  const LoraConfig rslora = {.rank = 2,
                             .alpha = 3,
                             .scale = LoraScale::rslora,
                             .targets = {"self_attn.k_proj", "mlp.down_proj"}};
  const std::string llama = adapter_config(model_with(rslora, false), "");
  CHECK(Json::parse(llama).at("base_model_name_or_path").is_null());
  CHECK(Json::parse(llama).at("lora_alpha").is_number_integer());
  CHECK(Json::parse(llama).at("fan_in_fan_out") == false);
  folder.write(kAdapterConfig, llama);
  CHECK(read_adapter_config(folder.path(), model_with(rslora, false)) == rslora);
}

// What is said of peft's settings if some are others, without the path; "" if nothing.
std::string fault(const Json& changes) {
  const TestFolder folder;
  Json json = Json::parse(adapter_config(model_with(kLora), ""));
  json.update(changes);
  const std::string path = folder.write(kAdapterConfig, json.dump());
  try {
    read_adapter_config(folder.path(), model_with(kLora));
  } catch (const UserError& error) {
    const std::string text = error.what(), begin = path + ": ";
    CHECK_THAT(text, StartsWith(begin) && !ContainsSubstring("\n"));
    return text.substr(begin.size());
  }
  return "";
}

// What LoraConfig of peft 0.21 has where nothing is given (its help in peft/tuners/lora/config.py).
TEST_CASE("settings that a file leaves out have peft's defaults, any of them together") {
  const Json defaults = {{"r", 8},
                         {"lora_alpha", 8},
                         {"use_rslora", false},
                         {"bias", "none"},
                         {"init_lora_weights", true},
                         {"lora_dropout", 0.0},
                         {"use_dora", false},
                         {"modules_to_save", nullptr}};
  for_random_cases(40, [&](size_t seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const TestFolder folder;
    Json short_one = Json::parse(adapter_config(model_with(kLora), "")), whole = short_one;
    for (const auto& [key, value] : defaults.items()) {
      if (random() % 2 == 0 || key == "r") continue;  // r has to be there
      short_one.erase(key);
      whole[key] = value;
    }
    folder.write(kAdapterConfig, short_one.dump());
    const LoraConfig lora = read_adapter_config(folder.path(), model_with(kLora));
    folder.write(kAdapterConfig, whole.dump());
    CHECK(lora == read_adapter_config(folder.path(), model_with(kLora)));
  });
}

TEST_CASE("settings that are not computed here are refused by name") {
  CHECK(fault(Json::object()) == "");
  CHECK(fault({{"lora_dropout", 0.05}}) == "lora_dropout is 0.05, this program's LoRA has 0.0");
  CHECK(fault({{"bias", "all"}}) == "bias is \"all\", this program's LoRA has \"none\"");
  CHECK_THAT(fault({{"modules_to_save", {"score"}}}), StartsWith("modules_to_save is [\"score\"]"));
  CHECK_THAT(fault({{"peft_type", "IA3"}}), StartsWith("peft_type is \"IA3\""));
  CHECK_THAT(fault({{"init_lora_weights", "pissa"}}), StartsWith("init_lora_weights is \"pissa\""));
  for (const char* key : {"use_dora", "lora_bias", "use_qalora", "a_new_kind_of_adapter"}) {
    CHECK(fault({{key, true}}) == concat(key, " is true, this program's LoRA has no such setting"));
    CHECK(fault({{key, false}}) == "");
  }
  CHECK_THAT(fault({{"rank_pattern", {{"h.0.attn.c_attn", 2}}}}), StartsWith("rank_pattern is {"));
  CHECK_THAT(fault({{"layers_to_transform", {0}}}), StartsWith("layers_to_transform is [0]"));
  CHECK(fault({{"rank_pattern", Json::object()}, {"layers_to_transform", nullptr}}) == "");
}

TEST_CASE("adapters of experts have no place in such a file, and are refused by their name") {
  const TestFolder folder;
  const std::string path = folder.write(kAdapterConfig, adapter_config(model_with(kLora), ""));
  ModelConfig model = model_with(kLora);
  model.experts = {.num_experts = 2};
  const std::string why =
      "adapters of experts: peft's target_modules names layers, and transformers keeps a block's "
      "experts in one tensor; leave the MLP's layers out of --lora-targets";
  CHECK_THROWS_WITH(check_adapter_files(model), why);
  CHECK_THROWS_WITH(read_adapter_config(folder.path(), model), path + ": " + why);
  model.lora->targets = {"attn.c_attn"};
  CHECK_NOTHROW(check_adapter_files(model));
  folder.write(kAdapterConfig, adapter_config(model, ""));
  CHECK(read_adapter_config(folder.path(), model) == *model.lora);
}

TEST_CASE("targets are layers of a block, by the names that peft knows") {
  const auto targets = [](const Json& names) {
    const TestFolder folder;
    Json json = Json::parse(adapter_config(model_with(kLora), ""));
    json["target_modules"] = names;
    folder.write(kAdapterConfig, json.dump());
    return read_adapter_config(folder.path(), model_with(kLora)).targets;
  };
  using Names = std::vector<std::string>;
  CHECK(targets({"c_proj"}) == Names{"attn.c_proj", "mlp.c_proj"});
  CHECK(targets({"c_fc", "attn.c_attn"}) == Names{"attn.c_attn", "mlp.c_fc"});
  for (const Json& wrong :
       {Json("all-linear"), Json::array(), Json{"qkv"}, Json{"lm_head"}, Json{"q_proj"},
        Json{"c_attn,c_fc"}, Json{7}, Json{"transformer.h.0.attn.c_attn"}}) {
    CAPTURE(wrong.dump());
    CHECK_THAT(fault({{"target_modules", wrong}}), StartsWith("target_modules is "));
  }
  CHECK(fault({{"r", 13}}) ==
        "--lora-rank 13: attn.c_attn has 12 inputs and 36 outputs; take at most 12");
  CHECK(fault({{"r", 0}}) == "r is 0, expected a whole number from 1 to 1000000000");
}

// Writes adapters of the model into a folder, each with so many rows and columns more.
std::string write_adapters(const TestFolder& folder, const ModelConfig& model, size_t more = 0,
                           const std::string& prefix = "base_model.model.transformer.") {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (auto tensor : tensors_of(describe(model), DType::fp64, prefix)) {
    if (!is_adapter(tensor.name)) continue;
    for (size_t& extent : tensor.shape) extent += more;
    tensors.push_back(tensor);
  }
  SafetensorsWriter writer(folder / kAdapterWeights, tensors);
  for (const auto& tensor : tensors) {
    const Values values = normal_values(tensor.shape[0] * tensor.shape[1], tensor.name, 1);
    writer.write(view_of(values));
  }
  writer.finish();
  return folder.path();
}

TEST_CASE("a file of adapters has all adapters of the model and nothing else") {
  const TestFolder folder;
  const ModelConfig model = model_with(kLora);
  const Layout layout(model, 1);
  const auto refusal = [&](const ModelConfig& other, size_t more = 0,
                           const std::string& prefix = "base_model.model.transformer.") {
    write_adapters(folder, other, more, prefix);
    try {
      const WeightsFile file = WeightsFile::of_adapters(folder.path(), layout);
    } catch (const UserError& error) {
      const std::string text = error.what(),
                        begin = concat("--init-adapter ", folder / kAdapterWeights, ": tensor ");
      CHECK_THAT(text, StartsWith(begin));
      return text.substr(begin.size());
    }
    return std::string();
  };
  CHECK(refusal(model) == "");
  const WeightsFile file = WeightsFile::of_adapters(folder.path(), layout);
  for (const Parameter& parameter : layout.unit(2).parameters) {
    CHECK(file.has(parameter) == is_adapter(parameter.name));
    if (!file.has(parameter)) continue;
    Values values(parameter.full_shape.num_elements());
    file.read(parameter, view_of(values));
    CHECK(values ==
          normal_values(values.size(), "base_model.model.transformer." + parameter.name, 1));
  }

  LoraConfig other = kLora;
  other.targets = {"attn.c_attn"};
  CHECK(refusal(model_with(other)) == "h.0.mlp.c_proj.lora_A.weight is missing");
  other.targets = {"attn.c_attn", "mlp.c_fc", "mlp.c_proj"};
  CHECK_THAT(refusal(model_with(other)),
             ContainsSubstring("c_fc") && ContainsSubstring("is not part of the model"));
  CHECK_THAT(refusal(model, 1), ContainsSubstring("has shape (5, 13), the model needs (4, 12)"));
  CHECK_THAT(refusal(model, 0, "base_model.model.encoder."), ContainsSubstring("is missing"));
}

}  // namespace
}  // namespace ladder::testing
