// The file config.json of transformers, written and read.
#include "common/model/published_config.h"

#include <nlohmann/json.hpp>

#include "kernels/runtime/check.h"
#include "tests/common/io/test_files.h"
#include "tests/common/model/support.h"

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
    require_same_model(path, read_published_config(path), kConfig);
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
  CHECK_NOTHROW(require_same_model(path, read_published_config(path), other));
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
  const ModelConfig read = read_published_config(path);
  CHECK_NOTHROW(require_same_model(path, read, find_preset("gpt2").config));
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
      {"n_head", "3", "\"3\", expected a whole number from 1"},
      {"n_head", 3.5, "3.5, expected a whole number from 1"},
      {"n_head", -3, "-3, expected a whole number from 1"},
      {"n_head", 0, "0, expected a whole number from 1"},
      {"n_head", nullptr, "null, expected a whole number from 1"},
      {"vocab_size", 1e18, "1e+18, expected a whole number from 1"},
      {"n_inner", 61, "61, but the model has --ffn 60"},
      {"n_inner", "61", "\"61\", expected a whole number from 1"},
      {"model_type", "llama", "\"llama\", this program's GPT-2 has \"gpt2\""},
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

}  // namespace
}  // namespace ladder::testing
