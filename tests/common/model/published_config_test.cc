// The file config.json of transformers, written and read.
#include "common/model/published_config.h"

#include <nlohmann/json.hpp>
#include <random>

#include "kernels/runtime/check.h"
#include "tests/common/io/test_files.h"
#include "tests/common/model/support.h"
#include "tests/sample.h"

namespace ladder::testing {
namespace {

using Json = nlohmann::json;

constexpr ModelConfig kConfig = {
    .num_layers = 2, .num_heads = 3, .hidden = 15, .vocab_size = 37, .sequence_length = 11};

// What is said of this config.json for a model of kConfig, without the path.
std::string fault(const Json& json) {
  const TestFolder folder;
  const std::string path = folder.write("config.json", json.dump());
  try {
    require_same_model(path, kConfig);
  } catch (const UserError& error) {
    const std::string text = error.what(), begin = path + ": ";
    CHECK_THAT(text, StartsWith(begin) && !ContainsSubstring("\n"));
    return text.substr(begin.size());
  }
  return "";
}

TEST_CASE("config.json is what transformers 4.57 and 5.23 opened, with the same logits") {
  const Json expected = {{"activation_function", "gelu_new"},
                         {"add_cross_attention", false},
                         {"architectures", {"GPT2LMHeadModel"}},
                         {"attn_pdrop", 0.0},
                         {"bos_token_id", nullptr},
                         {"embd_pdrop", 0.0},
                         {"eos_token_id", nullptr},
                         {"initializer_range", 0.02},
                         {"layer_norm_epsilon", 1e-5},
                         {"model_type", "gpt2"},
                         {"n_ctx", 11},
                         {"n_embd", 15},
                         {"n_head", 3},
                         {"n_inner", nullptr},
                         {"n_layer", 2},
                         {"n_positions", 11},
                         {"resid_pdrop", 0.0},
                         {"scale_attn_by_inverse_layer_idx", false},
                         {"scale_attn_weights", true},
                         {"tie_word_embeddings", true},
                         {"torch_dtype", "float32"},
                         {"vocab_size", 37}};
  CHECK(Json::parse(published_config(kConfig, {})) == expected);
  const Json with_end = Json::parse(published_config(kConfig, 36));
  CHECK(with_end.at("bos_token_id") == 36);
  CHECK(with_end.at("eos_token_id") == 36);
}

TEST_CASE("a model is read as it was written") {
  CHECK(fault(Json::parse(published_config(kConfig, {}))) == "");
  Json longer = Json::parse(published_config(kConfig, {}));
  longer["n_positions"] = 12;
  CHECK(fault(longer) == "");

  ModelConfig other = kConfig;
  other.ffn = 61;
  other.untied = true;
  const TestFolder folder;
  const std::string path = folder.write("config.json", published_config(other, {}));
  CHECK(Json::parse(published_config(other, {})).at("n_inner") == 61);
  CHECK_NOTHROW(require_same_model(path, other));
  CHECK(read_published_config(path) == other);
}

TEST_CASE("the end of a text is read as it was written, of several the first") {
  const TestFolder folder;
  const auto end = [&](const std::string& text) {
    return published_end_of_text(folder.write("config.json", text));
  };
  CHECK(end(published_config(kConfig, 36)) == 36);
  CHECK(end(published_config(kConfig, {})) == std::nullopt);
  CHECK(end(R"({"eos_token_id": [7, 8]})") == 7);
  for (const char* none : {"{}", R"({"eos_token_id": []})", R"({"eos_token_id": "7"})",
                           R"({"eos_token_id": -7})", R"({"eos_token_id": 7.5})"}) {
    CHECK(end(none) == std::nullopt);
  }
  CHECK_THROWS_WITH(end("{"), StartsWith(folder / "config.json: "));
}

TEST_CASE("what is not given is the smallest published GPT-2's") {
  const TestFolder folder;
  const std::string path = folder.write("config.json", "{}");
  CHECK(read_published_config(path) == find_preset("gpt2").config);
  CHECK(fault(Json::object()) == "n_layer is 12, but the model has --layers 2");
}

TEST_CASE("another model is refused, and both sides are named") {
  const Json good = Json::parse(published_config(kConfig, {}));
  const auto [key, value, expected] = GENERATE(table<std::string, Json, std::string>({
      {"n_head", 5, "5, but the model has --heads 3"},
      {"n_layer", 3, "3, but the model has --layers 2"},
      {"n_embd", 30, "30, but the model has --hidden 15"},
      {"vocab_size", 50257, "50257, but the model has --vocab 37"},
      {"n_positions", 10, "10, but the model has --sequence-length 11"},
      {"n_head", "3", "\"3\", expected a whole number from 1 to 1000000000"},
      {"n_head", 3.5, "3.5, expected a whole number from 1 to 1000000000"},
      {"n_head", -3, "-3, expected a whole number from 1 to 1000000000"},
      {"n_head", 0, "0, expected a whole number from 1 to 1000000000"},
      {"n_head", nullptr, "null, expected a whole number from 1 to 1000000000"},
      {"vocab_size", 1e18, "1e+18, expected a whole number from 1 to 1000000000"},
      {"n_inner", 61, "61, but the model has --ffn 60"},
      {"n_inner", "61", "\"61\", expected a whole number from 1 to 1000000000"},
      {"model_type", "gemma2",
       "\"gemma2\", this program has gpt2, llama, qwen2, qwen3, mistral, mixtral"},
      {"model_type", nullptr, "null, expected a text"},
      {"activation_function", "gelu", "\"gelu\", this program's GPT-2 has \"gelu_new\""},
      {"layer_norm_epsilon", 1e-6, "1e-06, this program's GPT-2 has 1e-05"},
      {"scale_attn_weights", false, "false, this program's GPT-2 has true"},
      {"scale_attn_by_inverse_layer_idx", true, "true, this program's GPT-2 has false"},
      {"add_cross_attention", true, "true, this program's GPT-2 has false"},
      {"tie_word_embeddings", false, "false; add --untied"},
      {"tie_word_embeddings", "no", "\"no\", expected true or false"},
  }));
  Json other = good;
  other[key] = value;
  CHECK(fault(other) == key + " is " + expected);
}

TEST_CASE("the same model in other words is taken") {
  Json other = Json::parse(published_config(kConfig, {}));
  other["activation_function"] = "gelu_pytorch_tanh";
  other["n_inner"] = 60;
  other["resid_pdrop"] = 0.1;
  other["unknown"] = {1, 2};
  CHECK(fault(other) == "");
}

// A Llama's config.json with few keys, as transformers 4 writes them.
Json llama_json() {
  return {{"model_type", "llama"},    {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"hidden_size", 24},        {"intermediate_size", 40},
          {"vocab_size", 37},         {"max_position_embeddings", 64}};
}

ModelConfig llama() {
  ModelConfig config = {2, 4, 24, 37, 64};
  config.ffn = 40;
  config.untied = true;
  config.key_value_heads = 2;
  config.norm = Norm::rmsnorm;
  config.norm_epsilon = 1e-6;
  config.positions = Positions::rotary;
  config.mlp = MlpCore::swiglu;
  config.biases = Biases::none;
  return config;
}

// What the file says, or how it is refused, without the path.
ModelConfig read(const Json& json) {
  const TestFolder folder;
  return read_published_config(folder.write("config.json", json.dump()));
}
std::string refusal(const Json& json) {
  const TestFolder folder;
  const std::string path = folder.write("config.json", json.dump());
  try {
    read_published_config(path);
  } catch (const UserError& error) {
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "";
}
Json changed(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

TEST_CASE("Llama: what is not given is what transformers takes for the model's type") {
  CHECK(read(llama_json()) == llama());
  ModelConfig expected = llama();
  SECTION("as many key-value heads as heads") {
    Json json = llama_json();
    json.erase("num_key_value_heads");
    expected.key_value_heads = 0;
    CHECK(read(json) == expected);
    CHECK(read(changed(json, {{"num_key_value_heads", nullptr}, {"head_dim", nullptr}})) ==
          expected);
    CHECK(read(changed(json, {{"num_key_value_heads", 4}, {"head_dim", 6}})) == expected);
  }
  SECTION("the types") {
    const auto typed = [&](const char* type) {
      return read(changed(llama_json(), {{"model_type", type}}));
    };
    CHECK(typed("mistral") == expected);
    expected.biases = Biases::qkv;
    CHECK(typed("qwen2") == expected);
    expected.biases = Biases::none;
    expected.qk_norm = QkNorm::rmsnorm;
    expected.head_size = 128;
    CHECK(typed("qwen3") == expected);
    expected.qk_norm = QkNorm::none;
    expected.head_size = 0;
    expected.norm_epsilon = 1e-5;
    expected.rope_theta = 1e6;
    expected.experts = {.num_experts = 8, .per_token = 2, .every = 1};
    CHECK(typed("mixtral") == expected);
  }
  SECTION("an inner layer of four times the hidden size is the default") {
    expected.ffn = 0;
    CHECK(read(changed(llama_json(), {{"intermediate_size", 96}})) == expected);
  }
}

TEST_CASE("rotary positions are read as transformers 4 and 5 write them") {
  ModelConfig expected = llama();
  expected.rope_theta = 5e5;
  CHECK(read(changed(llama_json(), {{"rope_theta", 500000}, {"rope_scaling", nullptr}})) ==
        expected);
  CHECK(read(changed(llama_json(),
                     {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}})) ==
        expected);
  const Json numbers = {{"factor", 32},
                        {"low_freq_factor", 1},
                        {"high_freq_factor", 4},
                        {"original_max_position_embeddings", 16}};
  expected.rope_scaling = Llama3Scaling{32, 1, 4, 16};
  for (const char* key : {"rope_type", "type"}) {
    CHECK(read(changed(llama_json(), {{"rope_theta", 5e5},
                                      {"rope_scaling", changed(numbers, {{key, "llama3"}})}})) ==
          expected);
  }
  CHECK(read(changed(llama_json(),
                     {{"rope_parameters", changed(numbers, {{"rope_type", "llama3"},
                                                            {"rope_theta", 5e5}})}})) == expected);
  const auto scaling = [&](const Json& changes) {
    const Json given = changed(changed(numbers, {{"rope_type", "llama3"}}), changes);
    return refusal(changed(llama_json(), {{"rope_scaling", given}}));
  };
  CHECK(scaling(Json::object()) == "");
  CHECK(scaling({{"rope_type", "yarn"}}) ==
        "rope_scaling.rope_type is \"yarn\", this program's llama has \"llama3\"");
  CHECK(scaling({{"low_freq_factor", 4}}) ==
        "rope_scaling.low_freq_factor is 4, expected less than 4, high_freq_factor");
  CHECK(scaling({{"factor", 0}}) == "rope_scaling.factor is 0, expected a number above 0");
  CHECK(scaling({{"factor", "8"}}) == "rope_scaling.factor is \"8\", expected a number above 0");
  CHECK(scaling({{"attention_factor", 2}}) ==
        "rope_scaling.attention_factor is 2, this program's llama has no such key");
  CHECK(scaling({{"rope_type", "default"}}) ==
        "rope_scaling.factor is 32, this program's llama has no such key");
  CHECK(refusal(changed(llama_json(), {{"rope_scaling", {{"rope_type", "llama3"}}}})) ==
        "rope_scaling.factor is missing");
  CHECK(refusal(changed(llama_json(), {{"rope_scaling", "linear"}})) ==
        "rope_scaling is \"linear\", expected an object");
  // Positions of each kind of layer.
  const Json nested = {{"full_attention", {{"rope_type", "default"}}}};
  CHECK_THAT(refusal(changed(llama_json(), {{"rope_parameters", nested}})),
             StartsWith("rope_parameters.full_attention is "));
}

// transformers' convert_rope_params_to_dict: rope_scaling where it is there, else rope_parameters.
TEST_CASE("of two objects about rotary positions the older one counts, whatever they say") {
  for_random_cases(40, [](size_t seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const auto draw = [&] {
      Json object = {{"rope_type", "default"}};
      if (random() % 2 == 0) object["rope_theta"] = 100 + random() % 1000;
      if (random() % 2 == 0) {
        object["rope_type"] = "llama3";
        object["factor"] = 2 + random() % 30;
        object["low_freq_factor"] = 1;
        object["high_freq_factor"] = 2 + random() % 4;
        object["original_max_position_embeddings"] = 8 + random() % 8;
      }
      return object;
    };
    const Json first = draw(), second = draw();
    const auto with = [](const Json& objects) { return read(changed(llama_json(), objects)); };
    CHECK(with({{"rope_scaling", first}, {"rope_parameters", second}}) ==
          with({{"rope_scaling", first}}));
    CHECK(with({{"rope_scaling", nullptr}, {"rope_parameters", second}}) ==
          with({{"rope_parameters", second}}));
    CHECK(with({{"rope_parameters", first}}) == with({{"rope_scaling", first}}));
  });
}

TEST_CASE("what a file of the Llama family has and this program does not compute is refused") {
  const auto [type, key, value, expected] =
      GENERATE(table<std::string, std::string, Json, std::string>({
          {"llama", "hidden_act", "gelu", "\"gelu\", this program's llama has \"silu\""},
          {"llama", "attention_bias", true, "true, this program's llama has false"},
          {"mistral", "attention_bias", true, "true, this program's mistral has false"},
          {"qwen3", "attention_bias", true, "true, this program's qwen3 has false"},
          {"qwen2", "mlp_bias", true, "true, this program's qwen2 has false"},
          {"llama", "partial_rotary_factor", 0.5, "0.5, this program's llama has 1.0"},
          {"llama", "quantization_config", 8, "8, this program's llama has null"},
          {"llama", "rms_norm_eps", 0, "0, expected a number above 0"},
          {"llama", "rope_theta", "x", "\"x\", expected a number above 0"},
          {"llama", "num_key_value_heads", 0, "0, expected a whole number from 1 to 1000000000"},
          {"llama", "head_dim", -1, "-1, expected a whole number from 1 to 1000000000"},
          {"llama", "tie_word_embeddings", nullptr, "null, expected true or false"},
          {"qwen2", "use_sliding_window", 1, "1, expected true or false"},
          {"mixtral", "num_experts_per_tok", 9, "9, but num_local_experts is 8"},
          {"mixtral", "num_experts_per_tok", 1,
           "1, expected at least 2: Mixtral gives a single expert the weight 1, and this program "
           "its probability"},
      }));
  CAPTURE(type, key);
  CHECK(refusal(changed(llama_json(), {{"model_type", type}, {key, value}})) ==
        concat(key, " is ", expected));
  Json json = llama_json();
  json.erase("hidden_size");
  CHECK(refusal(json) == "hidden_size is missing");
  CHECK(refusal(changed(llama_json(), {{"num_key_value_heads", 3}})) ==
        "--key-value-heads 3 does not divide --heads 4");
  CHECK_THAT(refusal(changed(llama_json(), {{"head_dim", 5}})), StartsWith("--head-size 5: "));
}

TEST_CASE("a window shorter than the positions is the end of the model's positions") {
  const auto positions = [](const Json& changes) {
    return read(changed(llama_json(), changes)).sequence_length;
  };
  CHECK(positions({{"model_type", "mistral"}, {"sliding_window", 16}}) == 16);
  CHECK(positions({{"model_type", "mistral"}, {"sliding_window", 64}}) == 64);
  CHECK(positions({{"model_type", "mistral"}, {"sliding_window", nullptr}}) == 64);
  CHECK(positions({{"model_type", "mistral"}, {"max_position_embeddings", 32768}}) == 4096);
  CHECK(positions({{"model_type", "mixtral"}, {"max_position_embeddings", 32768}}) == 32768);
  CHECK(positions({{"model_type", "qwen2"}, {"sliding_window", 16}}) == 64);
  CHECK(positions(
            {{"model_type", "qwen2"}, {"sliding_window", 16}, {"use_sliding_window", true}}) == 16);

  const TestFolder folder;
  const std::string path = folder.write(
      "config.json",
      changed(llama_json(), {{"model_type", "mistral"}, {"sliding_window", 16}}).dump());
  ModelConfig config = llama();
  config.sequence_length = 16;
  CHECK_NOTHROW(require_same_model(path, config));
  config.sequence_length = 17;
  CHECK_THROWS_WITH(require_same_model(path, config),
                    path + ": sliding_window is 16, but the model has --sequence-length 17");
}

TEST_CASE("a model of the Llama family is read as it was written, under transformers' names") {
  ModelConfig config = llama();
  config.norm_epsilon = 1e-5;
  std::string type = "llama", architecture = "LlamaForCausalLM";
  SECTION("Llama 3") {
    config.rope_theta = 5e5;
    config.rope_scaling = Llama3Scaling{32, 1, 4, 16};
  }
  SECTION("Qwen 2") {
    config.biases = Biases::qkv;
    config.untied = false;
    type = "qwen2", architecture = "Qwen2ForCausalLM";
  }
  SECTION("Qwen 3") {
    config.qk_norm = QkNorm::rmsnorm;
    config.head_size = 10;
    config.norm_epsilon = 1e-6;
    type = "qwen3", architecture = "Qwen3ForCausalLM";
  }
  SECTION("Qwen 3 with heads of hidden / heads") {
    config.qk_norm = QkNorm::rmsnorm;
    type = "qwen3", architecture = "Qwen3ForCausalLM";
  }
  SECTION("heads that do not divide the hidden size") {
    config.head_size = 10;
    config.hidden = 26;
    type = "mistral", architecture = "MistralForCausalLM";
  }
  SECTION("experts") {
    config.experts = {.num_experts = 3, .per_token = 2, .every = 1};
    type = "mixtral", architecture = "MixtralForCausalLM";
  }
  const std::string text = published_config(config, 3);
  const Json json = Json::parse(text);
  CHECK(json.at("model_type") == type);
  CHECK(json.at("architectures") == Json{architecture});
  CHECK(json.at("eos_token_id") == 3);
  const TestFolder folder;
  const std::string path = folder.write("config.json", text);
  CHECK(read_published_config(path) == config);
  CHECK_NOTHROW(require_same_model(path, config));
  CHECK_NOTHROW(require_publishable("", config));
}

TEST_CASE("a file of the Llama family and another model: both sides are named") {
  const TestFolder folder;
  const std::string path = folder.write("config.json", llama_json().dump());
  const auto fault_of = [&](const ModelConfig& config) {
    try {
      require_same_model(path, config);
    } catch (const UserError& error) {
      return std::string(error.what()).substr(path.size() + 2);
    }
    return std::string();
  };
  ModelConfig config = llama();
  CHECK(fault_of(config) == "");
  CHECK(fault_of(kConfig) == "model_type is \"llama\", but the model has \"gpt2\"");
  config.key_value_heads = 0;
  CHECK(fault_of(config) == "num_key_value_heads is 2, but the model has --key-value-heads 4");
  config = llama();
  config.rope_theta = 5e5;
  CHECK(fault_of(config) == "rope_theta is 10000.0, but the model has --rope-theta 500000.0");
  config = llama();
  config.norm_epsilon = 1e-5;
  CHECK(fault_of(config) == "rms_norm_eps is 1e-06, but the model has --norm-epsilon 1e-05");
  config = llama();
  config.rope_scaling = Llama3Scaling();
  CHECK_THAT(fault_of(config),
             StartsWith("rope_scaling is null, but the model has --rope-scaling {"));
  config = llama();
  config.untied = false;
  CHECK(fault_of(config) == "tie_word_embeddings is false; add --untied");
  config = llama();
  config.ffn = 41;
  CHECK(fault_of(config) == "intermediate_size is 40, but the model has --ffn 41");
  config = llama();
  config.sequence_length = 65;
  CHECK(fault_of(config) ==
        "max_position_embeddings is 64, but the model has --sequence-length 65");
  config.sequence_length = 63;
  CHECK(fault_of(config) == "");
}

TEST_CASE("a model that transformers does not have cannot be published") {
  const auto fault_of = [](ModelConfig config, const ExpertsConfig& experts) {
    config.experts = experts;
    try {
      require_publishable("out", config);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(fault_of(kConfig, {}) == "");
  ModelConfig masked = kConfig;
  masked.objective = Objective::masked;
  CHECK(fault_of(masked, {}) ==
        "out: the model is trained with --objective masked, and tokens see only earlier ones in "
        "models of transformers with these names");
  CHECK(fault_of(llama(), {.num_experts = 4, .per_token = 2, .every = 1}) == "");
  CHECK(fault_of(kConfig, {.num_experts = 4, .per_token = 2, .every = 1}) ==
        "out: the model has experts, and a GPT-2 of transformers has none");
  CHECK(fault_of(llama(), {.num_experts = 4, .per_token = 2, .every = 2}) ==
        "out: --moe-every 2: in a Mixtral of transformers every block has experts");
  CHECK(fault_of(llama(), {.num_experts = 4, .per_token = 1, .every = 1}) ==
        "out: --experts-per-token 1: Mixtral gives a single expert the weight 1, and this program "
        "its probability");
  ModelConfig qwen2 = llama();
  qwen2.biases = Biases::qkv;
  CHECK(fault_of(qwen2, {.num_experts = 4, .per_token = 2, .every = 1}) ==
        "out: the model has experts and biases, and a Mixtral of transformers has no biases");
  ModelConfig qwen3 = llama();
  qwen3.qk_norm = QkNorm::rmsnorm;
  CHECK(fault_of(qwen3, {}) == "");
  CHECK(fault_of(qwen3, {.num_experts = 4, .per_token = 2, .every = 1}) ==
        "out: the model has experts and norms of q and k, and a Mixtral of transformers has no "
        "such norms");
  qwen3.biases = Biases::qkv;
  CHECK(fault_of(qwen3, {}) ==
        "out: the model has norms of q and k and biases, and a Qwen3 of transformers has no "
        "biases");
}

}  // namespace
}  // namespace ladder::testing
