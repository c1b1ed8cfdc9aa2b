// The folder of --export.
#include "common/train/run/export.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/checkpoint/index.h"
#include "common/data/tokenizer.h"
#include "common/io/safetensors.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

using Names = std::vector<std::string>;
using Visit = std::function<void(const TensorSink&)>;

constexpr ModelConfig kConfig = {
    .num_layers = 1, .num_heads = 2, .hidden = 6, .vocab_size = 10, .sequence_length = 4};

// Gives every tensor of the model, with elements from 0.1 on.
void visit_all(const ModelConfig& config, DType dtype, const TensorSink& sink, double factor = 1) {
  double number = 0;
  for (const UnitSpec& unit : describe(config).units) {
    for (const ParameterSpec& p : unit.parameters) {
      std::vector<double> fp64(p.shape.num_elements());
      for (double& value : fp64) value = factor * (0.1 + number++);
      const std::vector<float> fp32(fp64.begin(), fp64.end());
      const void* const data = dtype == DType::fp64 ? static_cast<const void*>(fp64.data())
                                                    : static_cast<const void*>(fp32.data());
      sink(p, ConstTensorView(data, dtype, DeviceType::cpu, p.shape));
    }
  }
}

Vocabulary bytes() { return {.is_text = true, .tokenizer = {}, .end_of_text = {}}; }
Vocabulary tokens(std::optional<int32_t> end = {}) {
  return {.is_text = false, .tokenizer = {}, .end_of_text = end};
}

void write(const std::string& path, const ModelConfig& config, const Vocabulary& vocabulary,
           DType dtype = DType::fp32) {
  ExportFolder folder(path, config);
  folder.write(vocabulary, [&](const TensorSink& sink) { visit_all(config, dtype, sink); });
}

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(text_of(path)); }

TEST_CASE("an export has the parameters in F32, and is weights for --init") {
  const TestFolder folder;
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  write(folder / "out", kConfig, bytes(), dtype);
  CHECK(folder.list() == Names{"out"});
  CHECK(folder.list("out") == Names{"config.json", "generation_config.json", "model.safetensors",
                                    "tokenizer.json", "tokenizer_config.json"});
  const SafetensorsReader file(folder / "out/model.safetensors");
  Names names, expected;
  float number = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    names.push_back(entry.name);
    CHECK(entry.dtype == "F32");
    std::vector<float> values(entry.num_elements());
    file.read(entry, {values.data(), DType::fp32, DeviceType::cpu, {values.size()}});
    for (float value : values) CHECK(value == static_cast<float>(0.1 + double{number++}));
  }
  for (const UnitSpec& unit : describe(kConfig).units) {
    for (const ParameterSpec& p : unit.parameters) expected.push_back(p.name);
  }
  CHECK(names == expected);  // as published: no prefix, no lm_head.weight
  CHECK_NOTHROW(WeightsFile(folder / "out", Layout(kConfig, 1)));
  CHECK_NOTHROW(require_same_model(folder / "out/config.json", kConfig));
}

TEST_CASE("a Llama has transformers' names, and so has a Mixtral") {
  const TestFolder folder;
  ModelConfig config = find_preset("nano-llama").config;
  config.vocab_size = 10;
  config.untied = true;
  const bool has_experts = GENERATE(false, true);
  if (has_experts) config.experts = {.num_experts = 2, .per_token = 2, .every = 1};
  write(folder / "out", config, bytes());
  const SafetensorsReader file(folder / "out/model.safetensors");
  Names unexpected;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with("model.") && entry.name != "lm_head.weight") {
      unexpected.push_back(entry.name);
    }
  }
  CHECK(unexpected == Names{});
  // The head of q is (out, in), two of them to the one of k.
  using Shape = std::vector<size_t>;
  CHECK(file.find("model.layers.1.self_attn.q_proj.weight")->shape == Shape{32, 32});
  CHECK(file.find("model.layers.1.self_attn.k_proj.weight")->shape == Shape{16, 32});
  CHECK(file.find("lm_head.weight")->shape == Shape{10, 32});
  const std::string experts = "model.layers.0.block_sparse_moe.experts.1.";
  const std::string inner = has_experts ? experts + "w3" : "model.layers.0.mlp.up_proj";
  const std::string last = has_experts ? experts + "w2" : "model.layers.0.mlp.down_proj";
  REQUIRE(file.find(inner + ".weight") != nullptr);
  CHECK(file.find(inner + ".weight")->shape == Shape{96, 32});
  REQUIRE(file.find(last + ".weight") != nullptr);
  CHECK(file.find(last + ".weight")->shape == Shape{32, 96});
  CHECK(json_of(folder / "out/config.json").at("model_type") ==
        (has_experts ? "mixtral" : "llama"));
  CHECK_NOTHROW(WeightsFile(folder / "out", Layout(config, 1)));
  CHECK_NOTHROW(require_same_model(folder / "out/config.json", config));
}

TEST_CASE("bytes have a tokenizer and no end of text, other tokens the end that is known") {
  const TestFolder folder;
  write(folder / "bytes", kConfig, bytes());
  CHECK(Tokenizer(folder / "bytes/tokenizer.json").size() == 10);
  CHECK(json_of(folder / "bytes/tokenizer_config.json").at("model_max_length") == 4);
  const nlohmann::json no_end = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  CHECK(json_of(folder / "bytes/generation_config.json") == no_end);
  CHECK(json_of(folder / "bytes/config.json").at("eos_token_id") == nullptr);

  // Whatever the vocabulary's size is: GPT-2's, that of bytes, another.
  const size_t size = GENERATE(10, 256, 50257);
  ModelConfig config = kConfig;
  config.vocab_size = size;
  write(folder / "known", config, tokens(3));
  CHECK(folder.list("known") ==
        Names{"config.json", "generation_config.json", "model.safetensors"});
  CHECK(json_of(folder / "known/generation_config.json") ==
        nlohmann::json{{"bos_token_id", 3}, {"eos_token_id", 3}});
  CHECK(json_of(folder / "known/config.json").at("eos_token_id") == 3);
  write(folder / "unknown", config, tokens());
  CHECK(folder.list("unknown").size() == 3);
  CHECK(json_of(folder / "unknown/generation_config.json") == no_end);
  CHECK(json_of(folder / "unknown/config.json").at("bos_token_id") == nullptr);
  write(folder / "text", config, bytes());
  CHECK(json_of(folder / "text/generation_config.json") == no_end);
  CHECK(Tokenizer(folder / "text/tokenizer.json").size() == std::min<size_t>(size, 256));
}

TEST_CASE("a tokenizer that is given goes into the export, with the end that it knows") {
  const TestFolder folder;
  const std::string text = R"({"added_tokens": [{"id": 7, "content": "<|endoftext|>"}],)"
                           R"("model": {"vocab": {"a": 0}}, "decoder": {"type": "ByteLevel"}})";
  const std::string given = folder.write("mine.json", text);
  const Tokenizer tokenizer(given);
  std::filesystem::remove(given);  // it has been read
  write(folder / "out", kConfig,
        {.is_text = false, .tokenizer = tokenizer, .end_of_text = tokenizer.end_of_text()});
  CHECK(text_of(folder / "out/tokenizer.json") == text);
  const nlohmann::json config = json_of(folder / "out/tokenizer_config.json");
  CHECK(config.at("model_max_length") == 4);
  CHECK(config.at("eos_token") == "<|endoftext|>");
  CHECK(json_of(folder / "out/config.json").at("eos_token_id") == 7);
  // The export is a tokenizer with the same end.
  CHECK(Tokenizer(folder / "out/tokenizer.json").end_of_text() == 7);
}

TEST_CASE("an export that fails leaves nothing") {
  const TestFolder folder;
  const auto message_of = [&](const Visit& visit) {
    ExportFolder out(folder / "out", kConfig);
    try {
      out.write(bytes(), visit);
    } catch (const UserError&) {
      FAIL("it is not the user's mistake");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message_of([](const TensorSink&) { throw Error("broken"); }) == "broken");
  CHECK(folder.list().empty());
  // The first number above the largest float that does not round to it.
  CHECK(message_of([](const TensorSink& sink) { visit_all(kConfig, DType::fp64, sink, 1e38); }) ==
        "--export: wte.weight has a number that fp32 cannot hold");
  CHECK_THAT(message_of([](const TensorSink& sink) {
               visit_all(kConfig, DType::fp32, [&](const ParameterSpec& p, ConstTensorView value) {
                 ParameterSpec renamed = p;
                 renamed.name += "x";
                 sink(renamed, value);
               });
             }),
             ContainsSubstring("do not come in the model's order"));
  {
    const FullDisk full(512);
    CHECK_THAT(message_of([](const TensorSink& sink) { visit_all(kConfig, DType::fp32, sink); }),
               ContainsSubstring("write failed: File too large"));
  }
  CHECK(folder.list().empty());
}

TEST_CASE("a folder that cannot be written is refused when it is opened") {
  const TestFolder folder;
  folder.write("file", "text");
  const auto refusal = [&](const std::string& name, const ModelConfig& config) {
    try {
      const ExportFolder out(folder / name, config);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal("file", kConfig) == concat("--export ", folder / "file",
                                           ": cannot be written: it is a file, expected a new "
                                           "folder"));
  // 48 PB of parameters.
  CHECK_THAT(refusal("out", {1000, 1, 1'000'000, 256, 32}),
             StartsWith(concat("--export ", folder / "out", ": the model takes ")) &&
                 ContainsSubstring(", and the disk has "));
  ModelConfig mixture = kConfig;
  mixture.experts = {.num_experts = 2, .per_token = 1, .every = 1};
  CHECK(refusal("out", mixture) ==
        concat("--export ", folder / "out",
               ": the model has experts, and a GPT-2 of transformers has none"));
  CHECK(folder.list() == Names{"file"});
  folder.write("checkpoint.json", to_text(CheckpointIndex()).substr(0, 200));
  CHECK(refusal("out", kConfig) == concat("--export ", folder / "out", ": lies in the checkpoint ",
                                          std::filesystem::canonical(folder.path()).string(),
                                          "; name another place"));
  CHECK(folder.list() == Names{"checkpoint.json", "file"});
}

}  // namespace
}  // namespace ladder
