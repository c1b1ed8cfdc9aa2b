// What a run reads: the folder of --init, and the tokenizer.
#include "common/train/inputs.h"

#include <nlohmann/json.hpp>

#include "common/train/export.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

// A folder `init` as --export writes it, and a run that starts from it.
class Exported : public TestFolder {
 public:
  Exported() {
    config.model = {
        .num_layers = 1, .num_heads = 2, .hidden = 6, .vocab_size = 10, .sequence_length = 4};
    config.init = *this / "init";
    ExportFolder folder(config.init, config.model);
    folder.write(true, [&](const TensorSink& sink) {
      for (const UnitSpec& unit : describe(config.model).units) {
        for (const ParameterSpec& p : unit.parameters) {
          const std::vector<float> zeros(p.shape.num_elements());
          sink(p, ConstTensorView(zeros.data(), DType::fp32, DeviceType::cpu, p.shape));
        }
      }
    });
  }
  // What is said of the weights, without "--init ".
  std::string fault() const {
    try {
      check_weights(config, true);
    } catch (const UserError& error) {
      CHECK_THAT(error.what(), StartsWith("--init "));
      return std::string(error.what()).substr(7);
    }
    return "";
  }
  RunConfig config;
};

TEST_CASE("a folder is compared with the model where its weights cannot tell") {
  Exported run;
  CHECK(run.fault() == "");
  run.config.model.num_heads = 3;
  const std::string published = run.config.init + "/config.json";
  CHECK(run.fault() == published + ": n_head is 2, but the model has --heads 3");
  std::filesystem::remove(published);  // then nobody can tell
  CHECK(run.fault() == "");
  run.write("init/config.json", "{");
  CHECK(run.fault() == published + ": is not valid JSON in UTF-8, near its byte 2");
  // A file has no config.json, whatever lies beside it.
  run.config.init += "/model.safetensors";
  CHECK(run.fault() == "");
}

TEST_CASE("all that counts in a folder is an input") {
  Exported run;
  const std::string init = run.config.init;
  CHECK(init_files(run.config) ==
        std::vector<std::string>{init + "/model.safetensors", init + "/config.json"});
  std::filesystem::rename(init + "/model.safetensors", init + "/part.safetensors");
  CHECK_THROWS_WITH(init_files(run.config), StartsWith("--init " + init + ": "));
  nlohmann::json map;
  for (const UnitSpec& unit : describe(run.config.model).units) {
    for (const ParameterSpec& p : unit.parameters) map[p.name] = "part.safetensors";
  }
  run.write("init/model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  CHECK(run.fault() == "");
  CHECK(init_files(run.config) == std::vector<std::string>{init + "/model.safetensors.index.json",
                                                           init + "/part.safetensors",
                                                           init + "/config.json"});
  run.config.init = init + "/part.safetensors";
  CHECK(init_files(run.config) == std::vector<std::string>{run.config.init});
  run.config.init.clear();
  CHECK(init_files(run.config).empty());
}

TEST_CASE("a tokenizer is for token shards, and not larger than the vocabulary") {
  const TestFolder folder;
  const std::string path = folder.write("tokenizer.json", byte_tokenizer(256));
  std::vector<int32_t> shard(258, 0);
  shard[0] = 20240520;
  shard[1] = 1;
  shard[2] = 4;
  const Corpus shards = Corpus::open(folder.write(
      "a.bin", std::string(reinterpret_cast<const char*>(shard.data()), 258 * sizeof(int32_t))));
  RunConfig config;
  config.model.vocab_size = 256;
  CHECK_FALSE(open_tokenizer(config, shards).has_value());
  config.tokenizer = path;
  CHECK(open_tokenizer(config, shards)->text_of('a') == "a");
  CHECK_THROWS_WITH(open_tokenizer(config, Corpus::king_james()),
                    "--tokenizer " + path +
                        ": tokens are the bytes of a text here; tools/tokenize "
                        "makes token shards of it");
  config.model.vocab_size = 255;
  CHECK_THROWS_WITH(open_tokenizer(config, shards),
                    "--tokenizer " + path +
                        ": has tokens up to 255, beyond the vocabulary of 255; "
                        "give the tokenizer of --data, or --vocab 256");
  config.tokenizer = folder / "none";
  CHECK_THROWS_WITH(open_tokenizer(config, shards),
                    StartsWith("--tokenizer " + folder / "none: cannot be read"));
}

}  // namespace
}  // namespace ladder
