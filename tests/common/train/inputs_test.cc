// What a run reads: the folder of --init, and the tokenizer.
#include "common/train/flags/inputs.h"

#include <nlohmann/json.hpp>

#include "common/train/run/export.h"
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
    folder.write(
        {.is_text = true, .tokenizer = {}, .end_of_text = {}}, [&](const TensorSink& sink) {
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

// A token shard that begins with token 3.
Corpus shards_in(const TestFolder& folder) {
  std::vector<int32_t> shard(258, 0);
  shard[0] = 20240520;
  shard[1] = 1;
  shard[2] = 4;
  shard[256] = 3;
  return Corpus::open(folder.write(
      "a.bin", std::string(reinterpret_cast<const char*>(shard.data()), 258 * sizeof(int32_t))));
}

TEST_CASE("a tokenizer is for token shards, and not larger than the vocabulary") {
  const TestFolder folder;
  const std::string path = folder.write("tokenizer.json", byte_tokenizer(256));
  const Corpus shards = shards_in(folder);
  RunConfig config;
  config.model.vocab_size = 256;
  CHECK_FALSE(open_vocabulary(config, shards).tokenizer.has_value());
  config.tokenizer = path;
  CHECK(open_vocabulary(config, shards).tokenizer->text_of('a') == "a");
  CHECK_THROWS_WITH(open_vocabulary(config, Corpus::king_james()),
                    "--tokenizer " + path +
                        ": tokens are the bytes of a text here; tools/tokenize "
                        "makes token shards of it");
  config.model.vocab_size = 255;
  CHECK_THROWS_WITH(open_vocabulary(config, shards),
                    "--tokenizer " + path +
                        ": has tokens up to 255, beyond the vocabulary of 255; "
                        "give the tokenizer of --data, or --vocab 256");
  config.tokenizer = folder / "none";
  CHECK_THROWS_WITH(open_vocabulary(config, shards),
                    StartsWith("--tokenizer " + folder / "none: cannot be read"));
}

TEST_CASE("the end of a text is known by the tokenizer or the weights, and no size tells it") {
  Exported run;
  const TestFolder folder;
  const Corpus shards = shards_in(folder);
  const auto end = [&] { return open_vocabulary(run.config, shards).end_of_text; };
  const auto publish = [&](const nlohmann::json& token) {
    nlohmann::json published = nlohmann::json::parse(text_of(run.config.init + "/config.json"));
    published["eos_token_id"] = token;
    run.write("init/config.json", published.dump());
  };
  CHECK(end() == std::nullopt);
  publish(4);
  CHECK(end() == 4);
  CHECK(open_vocabulary(run.config, Corpus::king_james()).end_of_text == std::nullopt);
  publish({5, 6});
  CHECK(end() == 5);
  for (const nlohmann::json& none : {nlohmann::json(10), nlohmann::json(-1), nlohmann::json("4"),
                                     nlohmann::json::array(), nlohmann::json(1e18)}) {
    publish(none);  // no token of this model
    CHECK(end() == std::nullopt);
  }
  publish(4);
  const auto tokenizer = [&](const std::string& added, int id) {
    return run.write("tokenizer.json",
                     concat(R"({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"a": 4}},)",
                            R"("added_tokens": [{"content": ")", added, R"(", "id": )", id, "}]}"));
  };
  run.config.tokenizer = tokenizer("<|endoftext|>", 0);
  CHECK(end() == 0);
  tokenizer("</s>", 0);
  CHECK(end() == 4);
  publish(5);  // which this tokenizer has not
  CHECK(end() == std::nullopt);
  for (const size_t size : {256, 50257}) {
    RunConfig other;
    other.model.vocab_size = size;
    CHECK(open_vocabulary(other, shards).end_of_text == std::nullopt);
  }
}

TEST_CASE("a sample continues a line break, the end of a text, or what the data begin with") {
  const TestFolder folder;
  const Corpus shards = shards_in(folder), text = Corpus::king_james();
  const Vocabulary bytes = {.is_text = true, .tokenizer = {}, .end_of_text = {}};
  CHECK(first_token(text, bytes, 256) == '\n');
  CHECK(first_token(text, bytes, 11) == '\n');
  CHECK(first_token(text, bytes, 10) == 0);  // neither '\n' nor 'G', with which it begins
  const Vocabulary known = {.is_text = false, .tokenizer = {}, .end_of_text = 7};
  CHECK(first_token(shards, known, 50257) == 7);
  CHECK(first_token(shards, {.is_text = false, .tokenizer = {}, .end_of_text = {}}, 50257) == 3);
}

TEST_CASE("the settings of a checkpoint say what its tokens are") {
  CheckpointIndex index;
  index.model.vocab_size = 10;
  CHECK_FALSE(vocabulary_of(index, "c").is_text);  // of a program that did not say it
  note_vocabulary({.is_text = true, .tokenizer = {}, .end_of_text = {}}, index.settings);
  CHECK(index.settings == std::map<std::string, std::string>{{"vocabulary", "bytes"}});
  CHECK(vocabulary_of(index, "c").is_text);
  CHECK(vocabulary_of(index, "c").end_of_text == std::nullopt);
  note_vocabulary({.is_text = false, .tokenizer = {}, .end_of_text = 9}, index.settings);
  CHECK_FALSE(vocabulary_of(index, "c").is_text);
  CHECK(vocabulary_of(index, "c").end_of_text == 9);
  for (const std::string bad : {"10", "-1", "", "x", "3x", " 3", "99999999999"}) {
    index.settings["end of text"] = bad;
    CHECK_THROWS_WITH(vocabulary_of(index, "c"), concat("c: its setting \"end of text\" is \"", bad,
                                                        "\", expected a token below 10"));
  }
}

}  // namespace
}  // namespace ladder
