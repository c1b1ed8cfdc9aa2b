// The program as a person uses it: what it prints, and one line for every mistake.
#include <catch2/catch.hpp>
#include <fstream>

#include "common/io/safetensors.h"
#include "kernels/runtime/check.h"
#include "tests/common/checkpoint/checkpoints.h"
#include "tools/checkpoints/list.h"
#include "tools/checkpoints/show.h"
#include "tools/process/process.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

ProcessResult run(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {fs::absolute("tools/checkpoints/checkpoints")};
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
  CHECK_THAT(
      output({"ls", folder / "c/"}),
      Contains("checkpoint.json: is not valid JSON in UTF-8, near its byte 2\nstep_00000100  "));
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
  CHECK_THAT(newest, Contains("--layers 2 --heads 4 --hidden 8 --vocab 11 --sequence-length 5\n") &&
                         Contains("state      loss_scale 65536 step 100 updates 99\n") &&
                         Contains("settings   --data 7 tokens --seed 1\n") &&
                         Contains("\n  rank_0007.safetensors  "));
  CHECK_THAT(output({"show", folder / "c/step_00000050"}),
             Contains("\n  rank_0000.safetensors  66 slices of wte to ln_f: exp_avg 3.88 KiB"));
}

TEST_CASE("show --rank: of any layout, with a checkpoint and without") {
  const TestFolder folder;
  write_two(folder / "c");
  CHECK_THAT(output({"show", folder / "c", "--rank", "3"}),
             StartsWith("rank 3 of data=2,pipeline=2,tensor=2: ") && Contains("\nreads "));
  CHECK_THAT(
      output({"show", folder / "c", "--rank", "3", "--layout", "tensor=4"}),
      StartsWith("rank 3 of tensor=4: ") && Contains("\n  rank_0001.safetensors: 15 chunks, "));
  const std::string text =
      output({"show", "--model", "gpt2", "--rank", "37", "--layout", "data=8,pipeline=4,tensor=2"});
  CHECK_THAT(text, Contains("data 2 of 8, pipeline 2 of 4, tensor 1 of 2; holds h.8 to h.11\n") &&
                       Contains("h.8.attn.c_proj.weight   (768, 768)     rows 384 to 767\n") &&
                       !Contains("reads"));
  CHECK_THAT(
      output({"show", "--model", "nano", "--layers", "7", "--rank", "0", "--layout", "data=1"}),
      Contains("wte to ln_f and classifier") && Contains("h.6.mlp.c_proj.bias"));
}

TEST_CASE("verify: a line for each that is sound, up to the first fault") {
  const TestFolder folder;
  write_two(folder / "c");
  const std::string a = folder / "c/step_00000050", b = folder / "c/step_00000100";
  const std::string text = output({"verify", folder / "c"});
  CHECK_THAT(text, StartsWith(a + ": sound, ") && Contains("\n" + b + ": sound, "));
  CHECK(output({"verify", b}) == text.substr(text.find('\n') + 1));
  damage(b + "/rank_0003.safetensors");
  const ProcessResult result = run({"verify", folder / "c"});
  CHECK(result.status == 2);
  CHECK_THAT(result.out, StartsWith(a + ": sound, ") && !Contains(b));
  CHECK_THAT(result.err, StartsWith("checkpoint: " + b + "/rank_0003.safetensors: tensor ") &&
                             EndsWith("the file is damaged, or of another step\n"));
}

TEST_CASE("reshard: prints the path of what it has written") {
  const TestFolder folder;
  write_two(folder / "c");
  CHECK(output({"reshard", folder / "c", folder / "out", "--layout", "tensor=2,data=3"}) ==
        folder / "out/step_00000100\n");
  CHECK_THAT(output({"ls", folder / "out"}), Contains("data=3,tensor=2"));
  output({"verify", folder / "out"});
}

TEST_CASE("export: the parameters by their published names, with a tokenizer if tokens are bytes") {
  const TestFolder folder;
  const bool is_bytes = GENERATE(false, true);
  Gpt2Config model = kSmall;
  if (is_bytes) model.vocab_size = 256;
  write_checkpoint(folder / "c", parse_layout("data=2,tensor=2"), 7, model, DType::fp64);
  CHECK(output({"export", folder / "c", folder / "out"}) == "");
  CHECK(fs::exists(folder / "out/config.json"));
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
  CHECK_THAT(refusal({}), Contains("expected ls, show, verify, reshard or export; see --help"));
  CHECK_THAT(refusal({"list"}), Contains("list"));
  CHECK_THAT(refusal({"ls"}), Contains("DIR"));
  CHECK_THAT(refusal({"ls", c, "verify", c}), Contains("verify"));
  CHECK_THAT(refusal({"ls", folder / "none"}), Contains("none: there is no such folder"));
  CHECK_THAT(refusal({"ls", folder / "empty"}), Contains("empty: has no checkpoint"));
  CHECK_THAT(refusal({"verify", folder / "link"}), Contains("link: is a link"));
  CHECK_THAT(refusal({"show", folder / "file"}), Contains("file: is a file, expected a folder"));
  CHECK_THAT(refusal({"show"}), Contains("expected DIR, or --model"));
  CHECK_THAT(refusal({"show", c, "--model", "gpt2"}), Contains("expected DIR, or --model"));
  CHECK_THAT(refusal({"show", "--model", "gpt2"}), Contains("needs --rank and --layout"));
  CHECK_THAT(refusal({"show", "--model", "gpt3", "--rank", "0", "--layout", "data=1"}),
             Contains("--model gpt3: no such preset"));
  CHECK_THAT(
      refusal({"show", "--model", "nano", "--heads", "3", "--rank", "0", "--layout", "data=1"}),
      Contains("--heads 3 does not divide --hidden 32"));
  CHECK_THAT(refusal({"show", c, "--layers", "3", "--rank", "0"}), Contains("--model"));
  CHECK_THAT(refusal({"show", c, "--layout", "data=2"}), Contains("--rank"));
  CHECK_THAT(refusal({"show", c, "--rank", "8"}),
             Contains("--layout data=2,pipeline=2,tensor=2: has ranks 0 to 7, no rank 8"));
  CHECK_THAT(refusal({"show", c, "--rank", "-1"}), Contains("--rank"));
  CHECK_THAT(refusal({"show", c, "--rank", "0", "--layout", "data=0"}),
             Contains("--layout data=0: data=0 is not a whole number from 1"));
  CHECK_THAT(refusal({"show", c, "--rank", "0", "--layout", "context=2"}),
             Contains("--layout context=2: ranks of a context axis"));
  CHECK_THAT(refusal({"reshard", c, out}), Contains("--layout"));
  CHECK_THAT(refusal({"reshard", c, "--layout", "data=2"}), Contains("OUT"));
  CHECK_THAT(refusal({"reshard", c, out, "--layout", "tensor=3"}),
             Contains("tensor=3 does not divide the model's 4 heads"));
  CHECK_THAT(refusal({"reshard", c, c, "--layout", "data=3"}), Contains("is there already"));
  CHECK_THAT(refusal({"reshard", c, folder / "file", "--layout", "data=3"}),
             Contains("file: is a file, expected a folder"));
  CHECK_THAT(refusal({"export", c}), Contains("OUT"));
  CHECK_THAT(refusal({"export", c, c}), Contains("c: ") && Contains("not empty"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("--help of the program and of each command") {
  CHECK_THAT(output({"--help"}), Contains("ls") && Contains("show") && Contains("verify") &&
                                     Contains("reshard") && Contains("export"));
  for (const char* command : {"ls", "show", "verify", "reshard", "export"}) {
    CHECK_THAT(output({command, "--help"}), Contains("DIR"));
  }
}

}  // namespace
}  // namespace ladder
