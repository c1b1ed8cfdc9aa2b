// The folder of --export.
#include "common/train/export.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

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

constexpr Gpt2Config kConfig = {
    .num_layers = 1, .num_heads = 2, .hidden = 6, .vocab_size = 10, .sequence_length = 4};

// Gives every tensor of the model, with elements from 0.1 on.
void visit_all(const Gpt2Config& config, DType dtype, const TensorSink& sink, double factor = 1) {
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

void write(const std::string& path, const Gpt2Config& config, bool is_text,
           DType dtype = DType::fp32) {
  ExportFolder folder(path, config);
  folder.write(is_text, [&](const TensorSink& sink) { visit_all(config, dtype, sink); });
}

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(text_of(path)); }

TEST_CASE("an export has the parameters in F32, and is weights for --init") {
  const TestFolder folder;
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  write(folder / "out", kConfig, true, dtype);
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
  CHECK_NOTHROW(require_same_model("", read_published_config(folder / "out/config.json"), kConfig));
}

TEST_CASE("bytes have a tokenizer and no end of text, GPT-2's tokens have an end and none") {
  const TestFolder folder;
  write(folder / "bytes", kConfig, true);
  CHECK(Tokenizer(folder / "bytes/tokenizer.json").size() == 10);
  CHECK(json_of(folder / "bytes/tokenizer_config.json").at("model_max_length") == 4);
  const nlohmann::json no_end = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  CHECK(json_of(folder / "bytes/generation_config.json") == no_end);
  CHECK(json_of(folder / "bytes/config.json").at("eos_token_id") == nullptr);

  Gpt2Config gpt2 = kConfig;
  gpt2.vocab_size = 50257;
  write(folder / "gpt2", gpt2, false);
  CHECK(folder.list("gpt2") == Names{"config.json", "generation_config.json", "model.safetensors"});
  CHECK(json_of(folder / "gpt2/generation_config.json") ==
        nlohmann::json{{"bos_token_id", 50256}, {"eos_token_id", 50256}});
  CHECK(json_of(folder / "gpt2/config.json").at("bos_token_id") == 50256);

  write(folder / "large", gpt2, true);  // bytes in a vocabulary that could hold more
  CHECK(json_of(folder / "large/generation_config.json") == no_end);
  CHECK(Tokenizer(folder / "large/tokenizer.json").size() == 256);
  write(folder / "other", kConfig, false);
  CHECK(json_of(folder / "other/generation_config.json") == no_end);
}

TEST_CASE("a tokenizer that is given goes into the export as it is") {
  const TestFolder folder;
  const std::string given = folder.write("mine.json", byte_tokenizer(7));
  {
    ExportFolder out(folder / "out", kConfig, given);
    std::filesystem::remove(given);  // it has been read
    out.write(false, [&](const TensorSink& sink) { visit_all(kConfig, DType::fp32, sink); });
  }
  CHECK(text_of(folder / "out/tokenizer.json") == byte_tokenizer(7));
  CHECK(json_of(folder / "out/tokenizer_config.json").at("model_max_length") == 4);
}

TEST_CASE("an export that fails leaves nothing") {
  const TestFolder folder;
  const auto message_of = [&](const Visit& visit) {
    ExportFolder out(folder / "out", kConfig);
    try {
      out.write(true, visit);
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
  const auto refusal = [&](const std::string& name, const Gpt2Config& config) {
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
  CHECK(folder.list() == Names{"file"});
}

}  // namespace
}  // namespace ladder
