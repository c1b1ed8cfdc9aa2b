// Outputs that would damage an input or each other.
#include "common/train/flags/named_files.h"

#include <array>
#include <iterator>
#include <optional>
#include <random>

#include "common/checkpoint/index.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// What is said of these files; "" if they may be used together.
std::string fault(RunConfig config) {
  config.inputs = {{"--init", config.init},
                   {"--init-adapter", config.init_adapter},
                   {"--data", config.data},
                   {"--task", config.task},
                   {"--tokenizer", config.tokenizer}};
  config.outputs = {{"--dump", config.dump},
                    {"--metrics", config.metrics},
                    {"--tensorboard", config.tensorboard},
                    {"--trace", config.trace},
                    {"--draw", config.draw},
                    {"--export", config.export_to},
                    {"--checkpoint", config.checkpoint.path}};
  const Corpus corpus = config.data.empty() ? Corpus::king_james() : Corpus::open(config.data);
  try {
    check_distinct(config, corpus);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

RunConfig outputs(const std::string& dump, const std::string& metrics, const std::string& trace) {
  RunConfig config;
  config.dump = dump;
  config.metrics = metrics;
  config.trace = trace;
  return config;
}

TEST_CASE("files that are apart may be used together") {
  const TestFolder folder;
  RunConfig config = outputs(folder / "dump", folder / "dump/metrics", folder / "trace");
  config.data = folder.write("text", "text");
  config.init = folder.write("step_000001.safetensors", "");
  config.flags_file = folder.write("flags", "");
  config.draw = folder / "dump/drawing";
  CHECK(fault(config) == "");
  CHECK(fault(RunConfig()) == "");
  CHECK(fault(outputs("", "/dev/stdout", "")) == "");
}

TEST_CASE("no two outputs are the same file") {
  const TestFolder folder;
  fs::create_symlink("x", folder / "dangling");
  const std::string x = folder / "x";
  for (const std::string& other : {x, folder / "./x", folder / "no/../x", folder / "dangling"}) {
    CAPTURE(other);
    const std::string rest = " are the same file; give the output a name of its own";
    CHECK(fault(outputs("", x, other)) == "--trace " + other + " and --metrics " + x + rest);
    CHECK(fault(outputs(x, other, "")) == "--metrics " + other + " and --dump " + x + rest);
    CHECK(fault(outputs(x, "", other)) == "--trace " + other + " and --dump " + x + rest);
    RunConfig drawn = outputs("", "", x);
    drawn.draw = other;
    CHECK(fault(drawn) == "--draw " + other + " and --trace " + x + rest);
    RunConfig board = outputs("", x, "");
    board.tensorboard = other;
    CHECK(fault(board) == "--tensorboard " + other + " and --metrics " + x + rest);
  }
}

TEST_CASE("no output is an input, whatever it is called") {
  const TestFolder folder;
  const std::string input = folder.write("input", "text");
  fs::create_symlink("input", folder / "link");
  fs::create_hard_link(input, folder / "hard");
  const std::string output = folder / GENERATE("input", "./input", "link", "hard");
  CAPTURE(output);
  for (const std::string flag : {"--data", "--init", "--config"}) {
    RunConfig config;
    (flag == "--data" ? config.data : flag == "--init" ? config.init : config.flags_file) = input;
    const std::string rest =
        " and " + flag + " " + input + " are the same file; give the output a name of its own";
    config.metrics = output;
    CHECK(fault(config) == "--metrics " + output + rest);
    config.metrics = "";
    config.trace = output;
    CHECK(fault(config) == "--trace " + output + rest);
    config.trace = "";
    config.draw = output;
    CHECK(fault(config) == "--draw " + output + rest);
  }
}

TEST_CASE("no output is a shard of the data folder") {
  const TestFolder folder;
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 2;
  const std::string shard(reinterpret_cast<const char*>(header.data()), 1024);
  folder.write("a.bin", shard + "abcd");
  folder.write("b.bin", shard + "abcd");
  RunConfig config = outputs("", folder / "b.bin", "");
  config.data = folder.path();
  CHECK(fault(config) == "--metrics " + config.metrics + " and --data " + folder.path() +
                             "/b.bin are the same file; give the output a name of its own");
  config.metrics = folder / "metrics";
  CHECK(fault(config) == "");
}

TEST_CASE("every file of a folder of weights is an input") {
  const TestFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "a.safetensors"}})");
  folder.write("a.safetensors", "");
  RunConfig config;
  config.init = folder.path();
  for (const char* name : {"config.json", "model.safetensors.index.json", "a.safetensors"}) {
    config.metrics = folder / name;
    CHECK(fault(config) == concat("--metrics ", folder / name, " and --init ", folder.path(), "/",
                                  name, " are the same file; give the output a name of its own"));
  }
  config.metrics = folder / "metrics";
  CHECK(fault(config) == "");
  config.tokenizer = folder.write("tokenizer.json", "");
  config.metrics = config.tokenizer;
  CHECK_THAT(fault(config), ContainsSubstring(" and --tokenizer "));
}

// Any output, and any file of a model that a run may read.
TEST_CASE("no output is a file of the folder of --init or beside --tokenizer, drawn at random") {
  const TestFolder folder;
  std::mt19937 random(64);
  const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
  fs::create_symlink(".", folder / "link");
  folder.write("model.safetensors", "");
  folder.write("config.json", "{}");
  constexpr std::string RunConfig::*kOutputs[] = {
      &RunConfig::dump, &RunConfig::metrics,   &RunConfig::tensorboard, &RunConfig::trace,
      &RunConfig::draw, &RunConfig::export_to, &RunConfig::save_flags};
  constexpr const char* kFiles[] = {"config.json",       "generation_config.json",
                                    "tokenizer.json",    "tokenizer_config.json",
                                    "model.safetensors", "special_tokens_map.json"};
  for (int i = 0; i < 100; ++i) {
    RunConfig config;
    const bool is_init = random() % 2 == 0;
    const std::string file = one_of(kFiles), output = one_of(std::array{"", "./", "link/"}) + file;
    if (!is_init && file == "model.safetensors") continue;
    if (random() % 2 == 0) folder.write(file, "{}");
    (is_init ? config.init : config.tokenizer) =
        is_init ? folder.path() : folder / "tokenizer.json";
    config.*one_of(kOutputs) = folder / output;
    CAPTURE(output, config.init, config.tokenizer);
    CHECK_THAT(
        fault(config),
        ContainsSubstring(concat(" ", folder / output, is_init ? " and --init " : " and --")) &&
            EndsWith(" are the same file; give the output a name of its own"));
  }
}

TEST_CASE("no output of simulated ranks is the description of their cluster or program") {
  const TestFolder folder;
  const Corpus corpus = Corpus::king_james();
  const std::string file = folder.write("cluster.json", "{}"), other = folder / "./cluster.json";
  RunConfig config;
  config.outputs = {{"--trace", file}};
  for (const std::string flag : {"--cluster", "--program"}) {
    config.inputs = {{flag, other}};
    CHECK_THROWS_WITH(check_distinct(config, corpus),
                      "--trace " + file + " and " + flag + " " + other +
                          " are the same file; give the output a name of its own");
  }
  config.outputs = {{"--trace", folder / "trace"}};
  CHECK_NOTHROW(check_distinct(config, corpus));
}

TEST_CASE("no output lies in a checkpoint") {
  const TestFolder folder;
  fs::create_directories(folder / "c/step_00000002");
  fs::create_directories(folder / "other/mine/deep");
  folder.write("other/mine/checkpoint.json", to_text(CheckpointIndex()).substr(0, 200));
  fs::create_symlink("c/step_00000002", folder / "link");
  RunConfig config;
  config.checkpoint.path = folder / "c";
  const auto check_refused = [&](const char* flag, std::string RunConfig::*path) {
    for (const char* name : {"c/step_00000002", "c/step_00000002/rank_0000.safetensors",
                             "c/../c/step_00000004/x", "link/x", "other/mine/deep/x"}) {
      config.*path = folder / name;
      CHECK_THAT(fault(config),
                 StartsWith(concat(flag, " ", folder / name, " lies in the ") + "checkpoint ") &&
                     EndsWith("for its own files alone; name another place"));
      config.*path = "";
    }
    config.*path = folder / "c/x";  // beside the checkpoints
    CHECK(fault(config) == "");
    config.*path = "";
  };
  check_refused("--metrics", &RunConfig::metrics);
  check_refused("--trace", &RunConfig::trace);
  check_refused("--dump", &RunConfig::dump);
  check_refused("--tensorboard", &RunConfig::tensorboard);
  check_refused("--export", &RunConfig::export_to);
  check_refused("--draw", &RunConfig::draw);
}

TEST_CASE("no output is an event file of the board") {
  const TestFolder folder;
  RunConfig config = outputs("", folder / "board/events.out.tfevents.1.host.2.0", "");
  config.tensorboard = folder / "board";
  CHECK(fault(config) == concat("--metrics ", config.metrics,
                                " would be an event file of --tensorboard ", folder / "board",
                                "; give it a name of its own"));
  config.metrics = folder / "board/metrics";
  CHECK(fault(config) == "");
}

TEST_CASE("the folder of --export is for the model alone") {
  const TestFolder folder;
  fs::create_directory(folder / "out");
  RunConfig config;
  config.export_to = folder / GENERATE("out", "new", "./out/", "new/");
  const std::string base =
      folder /
      (config.export_to.find("new", folder.path().size()) != std::string::npos ? "new" : "out");
  const std::string rest = " lies in the folder of --export " + config.export_to +
                           ", which is for the model alone; name another place";
  config.metrics = base + "/metrics";
  CHECK(fault(config) == "--metrics " + config.metrics + rest);
  config.metrics = "";
  config.dump = base + "/deep/dump";
  CHECK(fault(config) == "--dump " + config.dump + rest);
  config.dump = "";
  config.draw = base + "/x";
  CHECK(fault(config) == "--draw " + base + "/x" + rest);
  config.draw = "";
  config.trace = base;  // also without the slash at the end
  CHECK_THAT(fault(config), ContainsSubstring(" are the same file"));
  config.trace = base + "put";  // a sibling with a longer name
  CHECK(fault(config) == "");
  config.trace = "";
  config.dump = folder.path();  // the other way round
  CHECK(fault(config) == "");
}

TEST_CASE("no other file lies where dumps will be") {
  const TestFolder folder;
  fs::create_directory(folder / "dump");
  fs::create_symlink("dump", folder / "link");
  const std::string step = folder.write("dump/step_000001.safetensors", "");
  fs::create_symlink("dump/step_000001.safetensors", folder / "weights");
  RunConfig config = outputs(folder / GENERATE("dump", "link", "dump/."), "", "");
  for (const std::string& init :
       {step, folder / "weights", folder / "link/step_000001.safetensors"}) {
    config.init = init;
    CHECK(fault(config) == "--init " + init + " lies where --dump " + config.dump +
                               " would write; name another folder for the dumps");
  }
  config.init = folder.write("dump/other.safetensors", "");
  CHECK(fault(config) == "");
  config.metrics = folder / "dump/step_000009.safetensors";
  CHECK_THAT(fault(config), StartsWith("--metrics " + config.metrics + " lies where --dump"));
  config.metrics = folder / "new/step_000009.safetensors";
  CHECK(fault(config) == "");
  config.dump = folder / "new";  // neither is there
  CHECK_THAT(fault(config), StartsWith("--metrics " + config.metrics + " lies where --dump"));
}

}  // namespace
}  // namespace ladder
