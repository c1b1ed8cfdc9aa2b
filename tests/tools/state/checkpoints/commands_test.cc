// The program as a person uses it: what it prints, and one line for every mistake.
#include <fstream>

#include "common/io/safetensors.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/checkpoints.h"
#include "tools/programs/process.h"
#include "tools/state/checkpoints/list.h"
#include "tools/state/checkpoints/show.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

ProcessResult run(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {fs::absolute("tools/state/checkpoints/checkpoints")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_process(argv);
}

std::string output(const std::vector<std::string>& arguments) {
  const ProcessResult result = run(arguments);
  CHECK(result.err == "");
  CHECK(result.status == 0);
  return result.out;
}

// What is said of a mistake: one line.
std::string refusal(const std::vector<std::string>& arguments) {
  const ProcessResult result = run(arguments);
  CAPTURE(arguments);
  CHECK(result.status == 2);
  CHECK_THAT(result.err, StartsWith("checkpoint: ") && EndsWith("\n"));
  CHECK(std::ranges::count(result.err, '\n') == 1);
  return result.err;
}

// Two checkpoints, of two layouts.
void write_two(const std::string& folder) {
  write_checkpoint(folder, parse_layout("data=2"), 50);
  write_checkpoint(folder, parse_layout("data=2,pipeline=2,tensor=2"), 100);
}

constexpr ModelConfig kMixture = {.num_layers = 2,
                                  .num_heads = 4,
                                  .hidden = 8,
                                  .vocab_size = 11,
                                  .sequence_length = 5,
                                  .experts = {.num_experts = 2, .per_token = 1, .every = 2},
                                  .ffn = 0,
                                  .untied = false};

// Changes the last byte of a file.
void damage(const std::string& path) {
  std::string text = text_of(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("ls: a line for each checkpoint, the newest marked") {
  const TestFolder folder;
  write_two(folder / "c");
  const std::string size = human_bytes(size_of_checkpoint(folder / "c/step_00000050"));
  const std::string text = output({"ls", folder / "c"});
  CHECK_THAT(text, StartsWith(concat("step_00000050  ", size, "  09_3d_parallel  data=2")));
  CHECK_THAT(text,
             EndsWith("  09_3d_parallel  data=2,pipeline=2,tensor=2  fp32  8 ranks  newest\n"));
  CHECK(std::ranges::count(text, '\n') == 2);
  std::ofstream(folder / "c/step_00000050/checkpoint.json") << "{";
  CHECK_THAT(output({"ls", folder / "c/"}),
             ContainsSubstring(
                 "checkpoint.json: is not valid JSON in UTF-8, near its byte 2\nstep_00000100  "));
}

TEST_CASE("show: who wrote it, the model, the state, and each rank's file") {
  const TestFolder folder;
  write_two(folder / "c");
  const std::string newest = output({"show", folder / "c"});
  CHECK(newest == output({"show", folder / "c/step_00000100"}));
  CHECK(newest == output({"show", folder / "c/step_00000100/"}));
  CHECK_THAT(newest, StartsWith(folder / "c/step_00000100\n"
                                         "written by 09_3d_parallel, data=2,pipeline=2,tensor=2, "
                                         "--dtype fp32\n"));
  CHECK_THAT(newest, ContainsSubstring(
                         "--layers 2 --heads 4 --hidden 8 --vocab 11 --sequence-length 5\n") &&
                         ContainsSubstring("state      loss_scale 65536 step 100 updates 99\n") &&
                         ContainsSubstring("settings   --data 7 tokens --seed 1\n") &&
                         ContainsSubstring("\n  rank_0007.safetensors  "));
  CHECK_THAT(
      output({"show", folder / "c/step_00000050"}),
      ContainsSubstring("\n  rank_0000.safetensors  66 slices of wte to ln_f: exp_avg 3.88 KiB"));
}

TEST_CASE("show --rank: of any layout, with a checkpoint and without") {
  const TestFolder folder;
  write_two(folder / "c");
  CHECK_THAT(output({"show", folder / "c", "--rank", "3"}),
             StartsWith("rank 3 of data=2,pipeline=2,tensor=2: ") && ContainsSubstring("\nreads "));
  CHECK_THAT(output({"show", folder / "c", "--rank", "3", "--layout", "tensor=4"}),
             StartsWith("rank 3 of tensor=4: ") &&
                 ContainsSubstring("\n  rank_0001.safetensors: 15 file blocks, "));
  const std::string text =
      output({"show", "--model", "gpt2", "--rank", "37", "--layout", "data=8,pipeline=4,tensor=2"});
  CHECK_THAT(
      text, ContainsSubstring("data 2 of 8, pipeline 2 of 4, tensor 1 of 2; holds h.8 to h.11\n") &&
                ContainsSubstring("h.8.attn.c_proj.weight   (768, 768)     rows 384 to 767\n") &&
                !ContainsSubstring("reads"));
  CHECK_THAT(
      output({"show", "--model", "nano", "--layers", "7", "--rank", "0", "--layout", "data=1"}),
      ContainsSubstring("wte to ln_f and classifier") && ContainsSubstring("h.6.mlp.c_proj.bias"));
}

TEST_CASE("verify: a line for each that is sound, up to the first fault") {
  const TestFolder folder;
  write_two(folder / "c");
  const std::string a = folder / "c/step_00000050", b = folder / "c/step_00000100";
  const std::string text = output({"verify", folder / "c"});
  CHECK_THAT(text, StartsWith(a + ": sound, ") && ContainsSubstring("\n" + b + ": sound, "));
  CHECK(output({"verify", b}) == text.substr(text.find('\n') + 1));
  damage(b + "/rank_0003.safetensors");
  const ProcessResult result = run({"verify", folder / "c"});
  CHECK(result.status == 2);
  CHECK_THAT(result.out, StartsWith(a + ": sound, ") && !ContainsSubstring(b));
  CHECK_THAT(result.err, StartsWith("checkpoint: " + b + "/rank_0003.safetensors: tensor ") &&
                             EndsWith("the file is damaged, or of another step\n"));
}

TEST_CASE("reshard: prints the path of what it has written") {
  const TestFolder folder;
  write_two(folder / "c");
  CHECK(output({"reshard", folder / "c", folder / "out", "--layout", "tensor=2,data=3"}) ==
        folder / "out/step_00000100\n");
  CHECK_THAT(output({"ls", folder / "out"}), ContainsSubstring("data=3,tensor=2"));
  output({"verify", folder / "out"});
}

TEST_CASE("export: the parameters by their published names, with a tokenizer if tokens are bytes") {
  const TestFolder folder;
  const bool is_bytes = GENERATE(false, true);
  ModelConfig model = kSmall;
  if (!is_bytes) model.vocab_size = 256;  // the size says nothing
  write_checkpoint(folder / "c", parse_layout("data=2,tensor=2"), 7, model, DType::fp64);
  const std::string index = folder / "c/step_00000007/checkpoint.json";
  auto json = nlohmann::json::parse(text_of(index));
  json["settings"]["vocabulary"] = is_bytes ? "bytes" : "a tokenizer's";
  if (!is_bytes) json["settings"]["end of text"] = "3";
  std::ofstream(index) << sealed(json);
  CHECK(output({"export", folder / "c", folder / "out"}) == "");
  const auto config = nlohmann::json::parse(text_of(folder / "out/config.json"));
  CHECK(config.at("eos_token_id") == (is_bytes ? nlohmann::json(nullptr) : nlohmann::json(3)));
  CHECK(fs::exists(folder / "out/tokenizer.json") == is_bytes);
  const SafetensorsReader file(folder / "out/model.safetensors");
  size_t num_parameters = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    const size_t n = entry.num_elements();
    num_parameters += n;
    std::vector<double> values(n);
    file.read(entry, TensorView(values.data(), DType::fp64, DeviceType::cpu, {n}));
    CHECK(values == values_of("param." + entry.name, {{0, n, n}, 0, n}));
  }
  CHECK(num_parameters == describe(model).num_parameters());
}

TEST_CASE("mistakes are said in one line that names the flag or the path") {
  const TestFolder folder;
  write_two(folder / "c");
  fs::create_directory(folder / "empty");
  fs::create_symlink("c", folder / "link");
  folder.write("file", "");
  const std::string c = folder / "c", out = folder / "out";
  CHECK_THAT(refusal({}),
             ContainsSubstring("expected ls, show, verify, reshard, export or merge; see --help"));
  CHECK(refusal({"shwo", "c"}) == "checkpoint: no such command shwo; did you mean show?\n");
  CHECK(refusal({"reshard", "c", "d", "--layuot=data=2"}) ==
        "checkpoint: no such flag --layuot; did you mean --layout?\n");
  CHECK_THAT(refusal({"feed", "it"}), EndsWith("no such command: feed it; see --help\n"));
  CHECK_THAT(refusal({"list"}), ContainsSubstring("list"));
  CHECK_THAT(refusal({"ls"}), ContainsSubstring("DIR"));
  CHECK_THAT(refusal({"ls", c, "verify", c}), ContainsSubstring("verify"));
  CHECK_THAT(refusal({"ls", folder / "none"}), ContainsSubstring("none: there is no such folder"));
  CHECK_THAT(refusal({"ls", folder / "empty"}), ContainsSubstring("empty: has no checkpoint"));
  CHECK_THAT(refusal({"verify", folder / "link"}), ContainsSubstring("link: is a link"));
  CHECK_THAT(refusal({"show", folder / "file"}),
             ContainsSubstring("file: is a file, expected a folder"));
  CHECK_THAT(refusal({"show"}), ContainsSubstring("expected DIR, or --model"));
  CHECK_THAT(refusal({"show", c, "--model", "gpt2"}),
             ContainsSubstring("expected DIR, or --model"));
  CHECK_THAT(refusal({"show", "--model", "gpt2"}), ContainsSubstring("needs --rank and --layout"));
  CHECK_THAT(refusal({"show", "--model", "gpt3", "--rank", "0", "--layout", "data=1"}),
             ContainsSubstring("--model gpt3: no such preset"));
  CHECK_THAT(
      refusal({"show", "--model", "nano", "--heads", "3", "--rank", "0", "--layout", "data=1"}),
      ContainsSubstring("--heads 3 does not divide --hidden 32"));
  CHECK_THAT(refusal({"show", c, "--layers", "3", "--rank", "0"}), ContainsSubstring("--model"));
  CHECK_THAT(refusal({"show", c, "--layout", "data=2"}), ContainsSubstring("--rank"));
  CHECK_THAT(refusal({"show", c, "--rank", "8"}),
             ContainsSubstring("--layout data=2,pipeline=2,tensor=2: has ranks 0 to 7, no rank 8"));
  CHECK_THAT(refusal({"show", c, "--rank", "-1"}), ContainsSubstring("--rank"));
  CHECK_THAT(refusal({"show", c, "--rank", "0", "--layout", "data=0"}),
             ContainsSubstring("--layout data=0: data=0 is not a whole number from 1"));
  CHECK_THAT(refusal({"show", c, "--rank", "0", "--layout", "context=2"}),
             ContainsSubstring("--layout context=2: ranks of a context axis"));
  CHECK_THAT(refusal({"reshard", c, out}), ContainsSubstring("--layout"));
  CHECK_THAT(refusal({"reshard", c, "--layout", "data=2"}), ContainsSubstring("OUT"));
  CHECK_THAT(refusal({"reshard", c, out, "--layout", "tensor=3"}),
             ContainsSubstring("cannot be split among 3 ranks"));
  CHECK_THAT(refusal({"reshard", c, c, "--layout", "data=3"}),
             ContainsSubstring("is there already"));
  CHECK_THAT(refusal({"reshard", c, c + "/step_00000100", "--layout", "data=3"}),
             ContainsSubstring("step_00000100: is a checkpoint or lies in one"));
  CHECK_THAT(refusal({"reshard", c, out, "--layout", "data=1000000"}),
             ContainsSubstring("--layout data=1000000: makes a file for each of 1000000 ranks"));
  CHECK_THAT(refusal({"export", c, c + "/step_00000100/out"}),
             ContainsSubstring("step_00000100/out: lies in the checkpoint "));
  write_checkpoint(folder / "m", {}, 1, kMixture);
  CHECK_THAT(refusal({"export", folder / "m", out}), ContainsSubstring("the model has experts"));
  fs::rename(c + "/step_00000100", c + "/step_00000200");
  CHECK_THAT(refusal({"verify", c + "/step_00000200"}),
             ContainsSubstring("the index says step 100"));
  CHECK_THAT(refusal({"show", c}), ContainsSubstring("the index says step 100"));
  fs::rename(c + "/step_00000200", c + "/step_00000100");
  CHECK_THAT(refusal({"reshard", c, folder / "file", "--layout", "data=3"}),
             ContainsSubstring("file: is a file, expected a folder"));
  CHECK_THAT(refusal({"export", c}), ContainsSubstring("OUT"));
  CHECK_THAT(refusal({"export", c, c}), ContainsSubstring("c: ") && ContainsSubstring("not empty"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("--help of the program and of each command") {
  CHECK_THAT(output({"--help"}), ContainsSubstring("ls") && ContainsSubstring("show") &&
                                     ContainsSubstring("verify") && ContainsSubstring("reshard") &&
                                     ContainsSubstring("export"));
  for (const char* command : {"ls", "show", "verify", "reshard", "export"}) {
    CHECK_THAT(output({command, "--help"}), ContainsSubstring("DIR"));
  }
}

}  // namespace
}  // namespace ladder
