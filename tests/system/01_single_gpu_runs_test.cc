// Lesson 01 as it should go: what it writes, and that it writes the same again.
#include <cmath>
#include <filesystem>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/sample.h"
#include "tests/system/mpirun.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

// Runs nano in `folder` and fails the test where the program does. Threads that wait sleep: tests
// share their cores with each other.
ProcessResult run_nano(const Scratch& folder, const Flags& flags) {
  const ProcessResult result =
      run_single_gpu(Flags{"--model", "nano", "--evaluate-every", "0"} + flags,
                     {.folder = folder.path(), .environment = {{"OMP_WAIT_POLICY", "passive"}}});
  CAPTURE(flags, result.out, result.err);
  REQUIRE(result.status == 0);
  CHECK(result.err.empty());
  return result;
}

Safetensors dump_of(const Scratch& folder, const std::string& name) {
  return Safetensors::parse(read_text(folder.path() / name));
}

// All files of two dumps, byte by byte.
bool same_dumps(const Scratch& folder, const std::string& a, const std::string& b, int num_steps) {
  for (int step = 1; step <= num_steps; ++step) {
    const std::string name = concat("/step_00000", step, ".safetensors");
    if (read_text(folder.path() / (a + name)) != read_text(folder.path() / (b + name))) {
      return false;
    }
  }
  return true;
}

// The loss that a run prints for its first step, or of its evaluation.
double printed_loss(const std::string& out, const std::string& before) {
  const size_t at = out.find(before);
  REQUIRE(at != std::string::npos);
  return std::stod(out.substr(at + before.size()));
}

// At the start logits are below 1, so each is off by at most 2^-9, and the loss by twice that.
TEST_CASE("01: rounded logits move the loss by no more than their rounding") {
  const std::string device = GENERATE("cpu", "emulator");
  if (device == "emulator" && device_name() != device) return;
  const Flags run = {"--model", "nano", "--device",         device, "--dtype",  "bf16",
                     "--steps", "1",    "--evaluate-every", "1",    "--sample", "0"};
  const auto output = [&](const Flags& more) {
    const ProcessResult result = run_single_gpu(run + more);
    CAPTURE(result.out, result.err);
    REQUIRE(result.status == 0);
    return result.out;
  };
  const std::string exact = output({}), rounded = output({"--round-logits"});
  for (const char* const loss : {"loss ", "validation loss "}) {
    CHECK(std::abs(printed_loss(rounded, loss) - printed_loss(exact, loss)) <= 1. / 256);
  }
  // A row block's logits in fp32 are gone: its gradients take the place of the rounded ones.
  const size_t rows = device == "cpu" ? 256 : 512;
  CHECK(printed_workspace(exact) - printed_workspace(rounded) == rows * 256 * sizeof(float));
}

TEST_CASE("01: LADDER_TIME_KERNELS prints the kernels' times on the CPU") {
  const ProcessResult timed =
      run_single_gpu({"--model", "nano", "--device", "cpu", "--steps", "3", "--evaluate-every", "0",
                      "--sample", "0"},
                     {.environment = {{"LADDER_TIME_KERNELS", "1"}}});
  CAPTURE(timed.err);
  REQUIRE(timed.status == 0);
  // Two blocks, three steps, without the first.
  CHECK(std::regex_search(timed.err, std::regex(R"( 5 +[0-9.]+  attention_backward\n)")));
  CHECK(std::regex_search(timed.err, std::regex(R"( 5 +[0-9.]+  matmul_bias 512 x 96 x 32\n)")));
  CHECK(std::regex_search(timed.err, std::regex(R"( 2 +[0-9.]+  adamw\n)")));
}

TEST_CASE("01: LADDER_TIME_KERNELS prints what every launch but the first took") {
  if (device_name() != "emulator") return;
  const Flags run = {"--model",          "nano", "--device", "emulator", "--steps", "3",
                     "--evaluate-every", "0",    "--sample", "0"};
  const ProcessResult timed = run_single_gpu(run, {.environment = {{"LADDER_TIME_KERNELS", "1"}}});
  CAPTURE(timed.err);
  REQUIRE(timed.status == 0);
  // Two blocks, three steps, without the first.
  CHECK_THAT(timed.err, ContainsSubstring("launches   us each  kernel"));
  CHECK(std::regex_search(timed.err,
                          std::regex(R"( 5 +[0-9.]+  forward_kernel<float, Tiling<float, 32>)")));
  CHECK(std::regex_search(timed.err, std::regex(R"( 2 +[0-9.]+  adamw_kernel<4, float)")));
  CHECK(std::regex_search(timed.err, std::regex(R"( 5 +[0-9.]+  cuBLAS 512 96 32)")));
  CHECK(run_single_gpu(run, {.environment = {{"LADDER_TIME_KERNELS", "0"}}}).err.empty());
}

TEST_CASE("01: a dump has the tensors of the contract") {
  const auto [dtype, stored] =
      GENERATE(table<std::string, std::string>({{"fp32", "F32"}, {"fp64", "F64"}}));
  const Scratch folder;
  run_nano(folder, {"--steps", "3", "--dtype", dtype, "--threads", "1", "--dump", "new/dump"});
  CHECK(folder.files() == std::vector<std::string>{"new", "new/dump",
                                                   "new/dump/step_000001.safetensors",
                                                   "new/dump/step_000002.safetensors",
                                                   "new/dump/step_000003.safetensors"});

  std::map<std::string, std::pair<std::string, std::vector<size_t>>> expected = {
      {"loss", {"F64", {1}}}, {"grad_norm", {"F64", {1}}}};
  for (const auto& [name, shape] : gpt2_shapes(kNano)) {
    for (const std::string kind : {"grad.", "param.", "exp_avg.", "exp_avg_sq."}) {
      expected[kind + name] = {stored, shape};
    }
  }
  const Safetensors dump = dump_of(folder, "new/dump/step_000003.safetensors");
  std::map<std::string, std::pair<std::string, std::vector<size_t>>> found;
  for (const auto& [name, tensor] : dump.header.items()) {
    if (name == "__metadata__") continue;
    found[name] = {tensor.at("dtype"), tensor.at("shape").get<std::vector<size_t>>()};
  }
  CHECK(found == expected);
  CHECK(dump.header.at("__metadata__") == Json{{"format", "pt"}});
  CHECK(dump.number("loss") > 0);
  CHECK(dump.number("grad_norm") > 0);
}

TEST_CASE("01: metrics are one JSON object a step") {
  const Scratch folder;
  run_nano(folder,
           {"--steps", "3", "--threads", "1", "--metrics", "metrics.jsonl", "--dump", "dump"});
  std::istringstream lines(read_text(folder.path() / "metrics.jsonl"));
  int64_t step = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json metrics = Json::parse(line);
    CAPTURE(line);
    CHECK(metrics.at("step") == ++step);
    const Safetensors dump = dump_of(folder, concat("dump/step_00000", step, ".safetensors"));
    CHECK(metrics.at("loss").get<double>() == dump.number("loss"));
    CHECK(metrics.at("grad_norm").get<double>() == dump.number("grad_norm"));
    for (const std::string key : {"learning_rate", "step_ms", "tokens_per_second"}) {
      CHECK(metrics.at(key).get<double>() > 0);
    }
    std::set<std::string> categories;
    for (const auto& [name, bytes] : metrics.at("peak_device_bytes").items()) {
      categories.insert(name);
    }
    CHECK(categories == std::set<std::string>{"parameters", "gradients", "optimizer", "activations",
                                              "communication", "workspace"});
    CHECK(metrics.at("collectives") == Json::object());
    CHECK_FALSE(metrics.contains("mfu"));  // nothing is known of this machine's peak
  }
  CHECK(step == 3);
}

// Runs `command`, of which $0 is the program and "$@" its flags, in a shell.
ProcessResult run_in_shell(const Scratch& folder, const std::string& command, const Flags& flags) {
  const Flags run = {"--model", "nano", "--evaluate-every", "0", "--threads", "1", "--sample", "0"};
  return run_process(Flags{"sh", "-c", command, lesson_path("01_single_gpu")} + run + flags,
                     {.folder = folder.path()});
}

// What the table of Muon's calls says: matrices, steps, calls and measured calls.
std::vector<size_t> muon_calls(const Flags& flags) {
  const ProcessResult result = run_single_gpu(flags);
  REQUIRE(result.status == 0);
  CHECK(result.out.find("differs") == std::string::npos);
  const std::regex line(
      R"(Newton-Schulz: (\d+) matri(?:x|ces) x (\d+) steps? = ([0-9,]+) calls, measured ([0-9,]+)\n)");
  std::smatch found;
  if (!std::regex_search(result.out, found, line)) return {};
  std::vector<size_t> numbers;
  for (size_t i = 1; i < found.size(); ++i) {
    std::string digits = found[i];
    std::erase(digits, ',');
    numbers.push_back(std::stoul(digits));
  }
  return numbers;
}

TEST_CASE("01: Muon's calls are those of what is trained, for each step that was made") {
  testing::for_random_cases(3, [](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const size_t layers = 2 + random() % 3, last = 1 + random() % (layers - 1),
                 steps = 1 + random() % 3;
    CAPTURE(layers, last, steps);
    const Flags flags = {"--model",
                         "nano",
                         "--layers",
                         concat(layers),
                         "--steps",
                         concat(steps),
                         "--optimizer",
                         "muon",
                         "--sample",
                         "0",
                         "--evaluate-every",
                         "0",
                         "--threads",
                         "1",
                         "--global-batch-size",
                         "2"};
    const std::vector<size_t> all = muon_calls(flags);
    REQUIRE(all.size() == 4);
    REQUIRE(all[0] % layers == 0);
    const size_t matrices = all[0] / layers * last;
    CHECK(all == std::vector{all[0], steps, all[0] * steps, all[0] * steps});
    CHECK(muon_calls(flags + Flags{"--train", concat("last-", last)}) ==
          std::vector{matrices, steps, matrices * steps, matrices * steps});
  });
}

// A step has 6 tokens, of which none is masked in about every third step.
TEST_CASE("01: a step or a validation batch without a token that counts is no loss of 0") {
  const ProcessResult result = run_single_gpu({"--model",
                                               "nano",
                                               "--objective",
                                               "masked",
                                               "--sequence-length",
                                               "6",
                                               "--steps",
                                               "20",
                                               "--global-batch-size",
                                               "1",
                                               "--evaluate-every",
                                               "10",
                                               "--evaluate-batches",
                                               "1",
                                               "--sample",
                                               "0",
                                               "--threads",
                                               "1",
                                               "--metrics",
                                               "/dev/stdout"});
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, ContainsSubstring("  loss: no token counts  grad norm 0.000"));
  CHECK_THAT(result.out, ContainsSubstring("\"loss\":null"));
  CHECK_THAT(result.out, !ContainsSubstring("loss 0.0000") && !ContainsSubstring("\"loss\":0.0"));
}

TEST_CASE("01: metrics go to standard output, to a file's descriptor or to a pipe") {
  const Scratch folder;
  const auto num_metrics = [](const std::string& text) {
    std::istringstream lines(text);
    size_t count = 0;
    for (std::string line; std::getline(lines, line);) count += line.starts_with("{\"step\":");
    return count;
  };
  const Flags flags = {"--steps", "3", "--metrics", "/dev/stdout"};
  const ProcessResult piped = run_in_shell(folder, "$0 \"$@\" | cat", flags);
  CHECK(num_metrics(piped.out) == 3);
  CHECK(run_in_shell(folder, "$0 \"$@\" > log", flags).status == 0);
  const std::string log = read_text(folder.path() / "log");
  CHECK(num_metrics(log) == 3);
  CHECK_THAT(log, StartsWith("01_single_gpu: ") && ContainsSubstring("step 3/3"));
  CHECK(std::filesystem::is_symlink("/dev/stdout"));

  const ProcessResult by_pipe =
      run_in_shell(folder, "mkfifo pipe; exec 3<>pipe; $0 \"$@\" > log && head -n 3 <&3",
                   {"--steps", "3", "--metrics", "pipe"});
  CHECK(by_pipe.status == 0);
  CHECK(num_metrics(by_pipe.out) == 3);
}

TEST_CASE("01: a closed standard output does not become a file") {
  const Scratch folder;
  const ProcessResult result = run_in_shell(
      folder, "$0 \"$@\" <&- >&- 2>&-", {"--steps", "1", "--metrics", "metrics", "--dump", "dump"});
  CHECK(result.status == 0);
  const std::string metrics = read_text(folder.path() / "metrics");
  CHECK_NOTHROW(Json::parse(metrics));
  CHECK(dump_of(folder, "dump/step_000001.safetensors").number("loss") > 0);
}

TEST_CASE("01: metrics have mfu where the peak is known") {
  const Scratch folder;
  run_nano(folder, {"--steps", "1", "--threads", "1", "--metrics", "m", "--peak-flops", "1e12"});
  const Json metrics = Json::parse(read_text(folder.path() / "m"));
  const double expected =
      metrics.at("tokens_per_second").get<double>() * flops_per_token(kNano) / 1e12;
  // A product of three doubles, each rounded once or twice.
  CHECK(std::abs(metrics.at("mfu").get<double>() - expected) <= 8 * 0x1p-53 * expected);
}

TEST_CASE("01: the same command twice writes the same bytes") {
  const Scratch folder;
  const Flags flags = {"--steps", "3", "--threads", "2", "--dump"};
  run_nano(folder, flags + Flags{"a"});
  run_nano(folder, flags + Flags{"b"});
  CHECK(same_dumps(folder, "a", "b", 3));
  run_nano(folder, flags + Flags{"c", "--seed", "2"});
  CHECK_FALSE(same_dumps(folder, "a", "c", 1));
}

TEST_CASE("01: in fp64 the number of threads changes no bit") {
  const Scratch folder;
  const Flags flags = {"--steps", "3", "--dtype", "fp64", "--dump"};
  run_nano(folder, flags + Flags{"a", "--threads", "1"});
  run_nano(folder, flags + Flags{"b", "--threads", "2"});
  run_nano(folder, flags + Flags{"c", "--threads", "3"});
  CHECK(same_dumps(folder, "a", "b", 3));
  CHECK(same_dumps(folder, "a", "c", 3));
}

TEST_CASE("01: a file of flags is the same as the flags") {
  const Scratch folder;
  folder.write("run.toml",
               "model = \"nano\"\nsteps = 2\nlearning-rate = 0.002\ndtype = \"fp64\"\n");
  run_nano(folder, {"--threads", "1", "--steps", "2", "--learning-rate", "0.002", "--dtype", "fp64",
                    "--dump", "a"});
  const ProcessResult result =
      run_single_gpu({"--config", "run.toml", "--dump", "b"}, {.folder = folder.path()});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(same_dumps(folder, "a", "b", 2));
}

TEST_CASE("01: relative paths are the user's under bazel run") {
  const Scratch started, users;
  users.write("text", std::string(2000, 'a'));
  const ProcessResult result = run_single_gpu(
      {"--model", "nano", "--steps", "1", "--data", "text", "--metrics", "metrics"},
      {.folder = started.path(), .environment = {{"BUILD_WORKING_DIRECTORY", users.path()}}});
  CAPTURE(result.err);
  CHECK(result.status == 0);
  CHECK(users.files() == std::vector<std::string>{"metrics", "text"});
  CHECK(started.files().empty());
}

TEST_CASE("01: on a terminal the line of a step is not wider than the terminal") {
  const std::string program = lesson_path("01_single_gpu");
  const ProcessResult result =
      run_process({"script", "-qec",
                   "stty cols 40; " + program + " --model nano --steps 30 --sample 0 --threads 1",
                   "/dev/null"});
  CAPTURE(result.out);
  REQUIRE(result.status == 0);
  size_t num_lines = 0;
  for (size_t at = 0; (at = result.out.find("\rstep ", at)) != std::string::npos; ++at) {
    const size_t end = result.out.find_first_of("\r\n", at + 1);
    const bool stays = result.out.compare(end, 2, "\r\n") == 0;
    if (!stays) CHECK(end - at - 1 < 40);
    ++num_lines;
  }
  CHECK(num_lines == 30);
  CHECK_THAT(result.out, ContainsSubstring("\nstep 30  validation loss "));
}

TEST_CASE("01: --help lists every flag, in groups") {
  const ProcessResult result = run_single_gpu({"--help"});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  for (const std::string text : {"Example: tools/run 01_single_gpu --config lessons/",
                                 "Page: lessons/01_single_gpu/README.md",
                                 "Model",
                                 "Training",
                                 "Output",
                                 "Machine",
                                 "--config",
                                 "--model",
                                 "--layers",
                                 "--heads",
                                 "--hidden",
                                 "--vocab",
                                 "--sequence-length",
                                 "--data",
                                 "--global-batch-size",
                                 "--micro-batch-size",
                                 "--steps",
                                 "--seed",
                                 "--learning-rate",
                                 "--min-learning-rate",
                                 "--warmup-steps",
                                 "--weight-decay",
                                 "--beta1",
                                 "--beta2",
                                 "--epsilon",
                                 "--clip-norm",
                                 "--evaluate-every",
                                 "--evaluate-batches",
                                 "--sample",
                                 "--temperature",
                                 "--top-k",
                                 "--dtype",
                                 "--device",
                                 "--threads",
                                 "--device-memory",
                                 "--host-memory",
                                 "--init",
                                 "--dump",
                                 "--metrics",
                                 "--tensorboard"}) {
    CHECK_THAT(result.out, ContainsSubstring(text));
  }
}

TEST_CASE("01: off a terminal the output is plain lines") {
  const Scratch folder;
  const ProcessResult result =
      run_nano(folder, {"--threads", "1", "--steps", "2", "--sample", "8"});
  CHECK(result.out.find('\r') == std::string::npos);
  CHECK(result.out.find('\x1b') == std::string::npos);
  CHECK_THAT(result.out, ContainsSubstring("loss") && ContainsSubstring("predicted"));
  CHECK_THAT(result.out, !ContainsSubstring("differs"));
}

TEST_CASE("01: accumulation changes nothing but rounding") {
  const Scratch folder;
  const Flags flags = {"--threads",           "1", "--dtype", "fp64", "--steps", "3",
                       "--global-batch-size", "8", "--dump"};
  run_nano(folder, flags + Flags{"a", "--micro-batch-size", "8"});
  run_nano(folder, flags + Flags{"b", "--micro-batch-size", "2"});
  run_nano(folder, flags + Flags{"c", "--micro-batch-size", "2", "--seed", "2"});
  const auto compare = [&](const std::string& other, const std::string& tolerance) {
    return run_process(
        {program_path("tools/state/comparison/comparison"), "a", other, "--tolerance", tolerance},
        {.folder = folder.path()});
  };
  // fp64 rounds at 1.1e-16; sums of some thousand terms and three steps leave it far below 1e-11,
  // the contract's bound between layouts.
  const ProcessResult same = compare("b", "1e-11");
  INFO(same.out << same.err);
  CHECK(same.status == 0);
  CHECK(compare("b", "0").status == 1);      // they are two computations, not one
  CHECK(compare("c", "1e-11").status == 1);  // and another run is told from them
}

}  // namespace
}  // namespace ladder
