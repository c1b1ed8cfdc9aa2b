// Lesson 01 with files that are missing or damaged, and with outputs that cannot be written:
// status 2, one line that names the file, nothing written.
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/sample.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using testing::for_random_cases;

const Flags kRun = kSmallest.flags() + Flags{"--steps",  "1", "--global-batch-size", "2",
                                             "--sample", "0", "--threads",           "1"};

ProcessResult run_in(const Scratch& folder, const Flags& flags) {
  return run_single_gpu(kRun + flags, {.folder = folder.path()});
}

// An input that cannot be read; outputs are asked for, none of which may come to be.
void check_bad_input(const std::string& flag, const std::string& path,
                     std::vector<std::string> mentions) {
  const Scratch folder;
  CAPTURE(flag, path, mentions);
  mentions.push_back(path);
  check_user_error(run_in(folder, {flag, path, "--dump", "dump", "--metrics", "metrics.jsonl"}),
                   mentions);
  CHECK(folder.files() == std::vector<std::string>{});
}

TEST_CASE("01: text files that are missing, empty or too short") {
  const Scratch inputs;
  check_bad_input("--data", inputs.path() / "missing.txt", {});
  check_bad_input("--data", inputs.path(), {});
  check_bad_input("--data", inputs.write("empty.txt", ""), {"empty"});
  check_bad_input("--data", inputs.write("short.txt", "In the beginning"), {"short"});
}

TEST_CASE("01: text above the vocabulary") {
  const Scratch inputs;
  const std::string path = inputs.write("text", std::string(999, 'a') + "\xff");
  const Scratch folder;
  Flags flags = kRun;
  flags[7] = "100";  // --vocab: 'a' is 97
  REQUIRE(flags[6] == "--vocab");
  check_user_error(run_single_gpu(flags + Flags{"--data", path}, {.folder = folder.path()}),
                   {path, "255", "vocab"});
}

TEST_CASE("01: token shards that are damaged") {
  const Scratch inputs;
  const std::vector<uint16_t> tokens(1000, 255);
  const std::string good = token_shard(tokens);
  const auto check_bad_shard = [&](const std::string& content, const std::string& mention) {
    check_bad_input("--data", inputs.write("a.bin", content), {mention});
  };
  check_bad_shard(token_shard(tokens, 20240521), "20240521");
  check_bad_shard(token_shard(tokens, 20240520, 2), "version");
  check_bad_shard(good.substr(0, good.size() - 2), "tokens");
  check_bad_shard(good + "xx", "tokens");
  check_bad_shard(good.substr(0, 1023), "header");
  check_bad_shard("", "empty");
  check_bad_shard(token_shard({1, 2, 3}), "short");
  check_bad_shard(token_shard(std::vector<uint16_t>(1000, 256)), "256");
  check_bad_input("--data", inputs.path() / "missing.bin", {});
}

TEST_CASE("01: data in a format that is not for training") {
  const Scratch inputs;
  const std::string rest(4000, '\0');
  check_bad_input("--data", inputs.write("x.npy", "\x93NUMPY\x01" + rest),
                  {"is a NumPy array", "tools/tokenize --convert"});
  check_bad_input("--data", inputs.write("text.gz", "\x1f\x8b" + rest), {"gzip", "unpack it"});
  check_bad_input("--data", inputs.write("weights.safetensors", zero_weights(kSmallest).text()),
                  {"a safetensors file", "--init"});
}

TEST_CASE("01: token shards that are good") {
  const Scratch inputs, folder;
  const std::string path = inputs.write("a.bin", token_shard(std::vector<uint16_t>(1000, 255)));
  const ProcessResult result = run_in(folder, {"--data", path});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 0);
}

// The loss after one step from the weights in `file`, or -1 where the program failed.
double loss_from(const Safetensors& file) {
  const Scratch inputs, folder;
  const ProcessResult result =
      run_in(folder, {"--init", inputs.write("init.safetensors", file.text()), "--dump", "dump"});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 0);
  if (result.status != 0) return -1;
  return Safetensors::parse(read_text(folder.path() / "dump/step_000001.safetensors"))
      .number("loss");
}

TEST_CASE("01: weights that are good") {
  // With zero weights all 256 bytes are equally likely: the loss is ln 256, which fp32 holds to
  // half a unit in the last place of [4, 8), 2^-22; logits and exponentials are exact (0 and 1).
  const double expected = std::log(256.0), tolerance = 0x1p-21;
  const Safetensors plain = zero_weights(kSmallest);
  CHECK(std::abs(loss_from(plain) - expected) <= tolerance);

  for (const std::string dtype : {"F64", "BF16", "F16"}) {
    CAPTURE(dtype);
    Safetensors decorated;
    decorated.header["__metadata__"] = {{"format", "pt"}};
    for (const auto& [name, shape] : gpt2_shapes(kSmallest)) {
      decorated.add("transformer." + name, shape, dtype);
    }
    decorated.add("transformer.h.0.attn.bias", {1, 1, 8, 8}, "BOOL");
    decorated.add("transformer.h.0.attn.masked_bias", {1});
    decorated.add("lm_head.weight", {256, 8}, dtype);
    CHECK(std::abs(loss_from(decorated) - expected) <= tolerance);
  }
}

void check_bad_weights(const std::string& content, const std::vector<std::string>& mentions) {
  const Scratch inputs;
  check_bad_input("--init", inputs.write("init.safetensors", content), mentions);
}

TEST_CASE("01: weights in a file that is damaged") {
  const Safetensors file = zero_weights(kSmallest);
  const std::string good = file.text();
  check_bad_weights("", {});
  check_bad_weights("not a safetensors file, but a text", {"--init", "a text"});
  check_bad_weights(good.substr(0, 5), {});
  check_bad_weights(good.substr(0, 100), {"header"});
  check_bad_weights(good.substr(0, good.size() - 4), {});
  check_bad_weights(good + "more", {});

  std::string long_header = good;
  long_header[5] = 1;  // 2^40 bytes and some
  check_bad_weights(long_header, {"header"});

  Safetensors overlapping = file;
  auto& offsets = overlapping.header["wpe.weight"]["data_offsets"];
  offsets = {offsets[0].get<size_t>() - 4, offsets[1].get<size_t>() - 4};
  check_bad_weights(overlapping.text(), {"wpe.weight"});

  const Scratch inputs;
  check_bad_input("--init", inputs.path() / "missing.safetensors", {});
  check_bad_input("--init", inputs.path(), {});
}

TEST_CASE("01: weights of another model") {
  const auto file_with = [](const auto& change) {
    auto shapes = gpt2_shapes(kSmallest);
    change(shapes);
    Safetensors file;
    for (const auto& [name, shape] : shapes) file.add(name, shape);
    return file.text();
  };
  using Shapes = std::map<std::string, std::vector<size_t>>;
  check_bad_weights(file_with([](Shapes& shapes) {
                      shapes["wte.weight"] = {8, 256};
                    }),
                    {"wte.weight", "256"});
  check_bad_weights(file_with([](Shapes& shapes) { shapes["h.0.ln_2.bias"] = {9}; }),
                    {"h.0.ln_2.bias", "9", "8"});
  check_bad_weights(file_with([](Shapes& shapes) { shapes.erase("h.0.mlp.c_fc.bias"); }),
                    {"h.0.mlp.c_fc.bias"});
  check_bad_weights(file_with([](Shapes& shapes) { shapes["h.1.ln_1.weight"] = {8}; }),
                    {"h.1.ln_1.weight"});

  Safetensors integers = zero_weights(kSmallest);
  integers.header["ln_f.bias"]["dtype"] = "I32";
  check_bad_weights(integers.text(), {"ln_f.bias", "I32"});

  Safetensors untied = zero_weights(kSmallest);
  untied.add("lm_head.weight", {256, 8});
  untied.data.back() = 1;
  check_bad_weights(untied.text(), {"lm_head.weight", "wte.weight"});
}

TEST_CASE("01: weights that are no numbers, or none of the run's dtype") {
  Safetensors file = zero_weights(kSmallest);
  const auto put = [&](const std::string& name, float value) {
    const size_t begin = file.header.at(name).at("data_offsets").at(0);
    std::memcpy(file.data.data() + begin + 4, &value, sizeof value);
  };
  put("h.0.ln_2.weight", std::nanf(""));
  check_bad_weights(file.text(), {"--init", "tensor h.0.ln_2.weight, element (1), is nan"});
  put("h.0.ln_2.weight", -HUGE_VALF);
  check_bad_weights(file.text(), {"tensor h.0.ln_2.weight, element (1), is -inf"});
}

TEST_CASE("01: a run goes on from its own dump, also with shorter sequences") {
  const Scratch folder;
  REQUIRE(run_in(folder, {"--dump", "first"}).status == 0);
  const std::string init = "first/step_000001.safetensors";
  const ProcessResult same = run_in(folder, {"--init", init, "--dump", "same"});
  CAPTURE(same.err);
  CHECK(same.status == 0);
  Flags shorter = kRun + Flags{"--init", init};
  REQUIRE(shorter[8] == "--sequence-length");
  REQUIRE(shorter[14] == "--sample");
  shorter[15] = "20";
  const auto run_with_length = [&](const std::string& length) {
    shorter[9] = length;
    return run_single_gpu(shorter, {.folder = folder.path()});
  };
  CHECK(run_with_length("4").status == 0);
  check_user_error(run_with_length("9"),
                   {"--init " + init, "wpe.weight has 8 positions", "--sequence-length 9"});
}

TEST_CASE("01: a run goes on from its own export") {
  const Scratch folder;
  REQUIRE(run_in(folder, {"--export", "out", "--dump", "first"}).status == 0);
  for (const std::string init : {"out", "out/model.safetensors", "first/step_000001.safetensors"}) {
    const ProcessResult result = run_in(folder, {"--init", init, "--dump", init + "_dump"});
    CAPTURE(init, result.err);
    CHECK(result.status == 0);
  }
  check_equal_dumps("out_dump", "first/step_000001.safetensors_dump", "0",
                    {.folder = folder.path()});
  check_equal_dumps("out_dump", "out/model.safetensors_dump", "0", {.folder = folder.path()});
  Flags more_heads = kRun + Flags{"--init", "out"};
  REQUIRE(more_heads[2] == "--heads");
  more_heads[3] = "4";
  check_user_error(run_single_gpu(more_heads, {.folder = folder.path()}),
                   {"--init out/config.json: n_head is 2, but the model has --heads 4"});
  check_user_error(run_in(folder, {"--init", "out", "--export", "out"}),
                   {"--export out and --init out are the same file"});
  check_user_error(run_in(folder, {"--export", "first"}), {"--export first", "not empty"});
  check_user_error(run_in(folder, {"--export", "new", "--metrics", "new/metrics"}),
                   {"--metrics new/metrics lies in the folder of --export new"});
}

TEST_CASE("01: several shards, and a tokenizer for the sample") {
  const Scratch folder;
  folder.write("b.bin", token_shard(std::vector<uint16_t>(500, 1)));
  folder.write("a.bin", token_shard(std::vector<uint16_t>(500, 2)));
  folder.write("tokenizer.json",
               R"({"model": {"vocab": {"\u0120a": 1, "b": 2}}, "truncation": {"max_length": 9},
                   "added_tokens": [{"id": 0, "content": "<|endoftext|>"}],
                   "decoder": {"type": "ByteLevel"}})");
  Flags flags = kRun + Flags{"--tokenizer", "tokenizer.json", "--temperature", "0"};
  REQUIRE(flags[14] == "--sample");
  flags[15] = "3";
  flags[7] = "3";  // --vocab
  const auto out_of = [&](const Flags& data) {
    const ProcessResult result = run_single_gpu(flags + data, {.folder = folder.path()});
    CAPTURE(data, result.out, result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string list = out_of({"--data", "b.bin,a.bin"}), pattern = out_of({"--data", "*.bin"});
  CHECK_THAT(list, ContainsSubstring("b.bin,a.bin, 2 files, 1,000 tokens"));
  CHECK_THAT(pattern, ContainsSubstring("*.bin, 2 files, 1,000 tokens"));
  // A file of flags splits values at commas by itself.
  folder.write("flags", "data = b.bin,a.bin\n");
  CHECK_THAT(out_of({"--config", "flags"}),
             ContainsSubstring("b.bin,a.bin, 2 files, 1,000 tokens"));
  // Another order is another run: these losses are of validation tokens 2 and 1.
  const auto loss_of = [](const std::string& out) {
    return out.substr(out.find("validation loss"), 22);
  };
  CHECK(loss_of(list) != loss_of(pattern));
  static const std::regex kSample(R"(\nsample:\n( a|b|<\|endoftext\|>){3}\n)");
  CHECK(std::regex_search(list, kSample));
  // Another model and a checkpoint's export know the end of a text, and nothing of truncation.
  out_of({"--data", "a.bin", "--export", "out", "--checkpoint", "c"});
  const std::string tokenizer = read_text(folder.path() / "out/tokenizer.json");
  CHECK_THAT(tokenizer, ContainsSubstring("\"truncation\": null"));
  CHECK_THAT(read_text(folder.path() / "out/config.json"),
             ContainsSubstring("\"eos_token_id\": 0"));
  CHECK_THAT(read_text(folder.path() / "c/step_00000001/checkpoint.json"),
             ContainsSubstring("\"end of text\":\"0\""));
  check_user_error(run_in(folder, {"--tokenizer", "tokenizer.json"}),
                   {"--tokenizer tokenizer.json", "bytes of a text", "tools/tokenize"});
}

TEST_CASE("01: names in files and paths do not command the terminal") {
  const Scratch folder;
  Safetensors file = zero_weights(kSmallest);
  file.add("\x1b[2J\n\u202e", {1});
  folder.write("weights\x1b[31m\n", file.text());
  const auto check_harmless = [&](const Flags& flags) {
    const ProcessResult result = run_in(folder, flags);
    CAPTURE(flags, result.out, result.err);
    check_user_error(result, {});
    for (const std::string harm : {"\x1b", "\u202e"}) {
      CHECK(result.err.find(harm) == std::string::npos);
      CHECK(result.out.find(harm) == std::string::npos);
    }
    CHECK(result.err.size() < 3000);
  };
  check_harmless({"--init", "weights\x1b[31m\n"});
  check_harmless({"--data", "data\x1b[31m\n"});
  check_harmless({"--metrics", "no\x1b[31m/metrics"});
  check_harmless({"--flag\x1b[31m\u202e"});
  check_harmless({"--dtype", "\x1b[31m" + std::string(100'000, 'x')});
  check_harmless({"--config", folder.write("flags", "\x1b[31m\u202e = 1\n")});
  folder.write("good\x1b[31m", std::string(1000, 'a'));
  const ProcessResult good = run_in(folder, {"--data", "good\x1b[31m"});
  CHECK(good.status == 0);
  CHECK_THAT(good.out, ContainsSubstring("good\\x1b[31m") && !ContainsSubstring("\x1b"));
}

TEST_CASE("01: an output that is an input, or another output") {
  const Scratch folder;
  const std::string text(2000, 'a');
  folder.write("text", text);
  std::filesystem::create_hard_link(folder.path() / "text", folder.path() / "hard");
  check_user_error(run_in(folder, {"--data", "text", "--metrics", "hard"}),
                   {"--metrics hard", "--data text", "the same file"});
  check_user_error(run_in(folder, {"--dump", "x", "--trace", "./x"}),
                   {"--trace ./x", "--dump x", "the same file"});
  CHECK(folder.files() == std::vector<std::string>{"hard", "text"});
  CHECK(read_text(folder.path() / "text") == text);
}

// Users share a folder by their umask, so files and folders have all that it leaves them.
TEST_CASE("01: files and folders have the permissions that the umask leaves, with any umask") {
  namespace fs = std::filesystem;
  for_random_cases(3, [](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const mode_t mask = random() % 2 == 0 ? random() % 0100 : random() % 8 * 010;  // not the user's
    CAPTURE(mask);
    const Scratch folder;
    fs::create_directory(folder.path() / "made");
    const mode_t before = umask(mask);
    const ProcessResult result =
        run_in(folder, {"--metrics", "made/m", "--dump", "made/dump", "--trace", "made/t",
                        "--export", "made/export", "--tensorboard", "made/board", "--checkpoint",
                        "made/c", "--save-config", "made/flags.toml", "--evaluate-every", "0"});
    umask(before);
    REQUIRE(result.status == 0);
    size_t files = 0, folders = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "made")) {
      CAPTURE(entry.path());
      const auto mode = static_cast<mode_t>(entry.status().permissions());
      CHECK(mode == ((entry.is_directory() ? 0777 : 0666) & ~mask));
      ++(entry.is_directory() ? folders : files);
    }
    CHECK(files >= 11);
    CHECK(folders >= 4);
  });
}

TEST_CASE("01: outputs that cannot be written") {
  const Scratch folder;
  folder.write("file", "precious");
  const auto check_bad_output = [&](const std::string& flag, const std::string& path) {
    CAPTURE(flag, path);
    check_user_error(run_in(folder, {flag, path}), {flag, path});
    CHECK(folder.files() == std::vector<std::string>{"file"});
    CHECK(read_text(folder.path() / "file") == "precious");
  };
  check_bad_output("--dump", "file");
  check_bad_output("--dump", "file/below");
  check_bad_output("--dump", "/proc/x");
  check_bad_output("--metrics", "file/below");
  check_bad_output("--metrics", "missing/metrics.jsonl");
  check_bad_output("--metrics", "/proc/x");
  check_bad_output("--metrics", ".");
  check_bad_output("--tensorboard", "file");
  check_bad_output("--tensorboard", "file/below");
  check_bad_output("--tensorboard", "/proc/x");
  check_bad_output("--trace", "/dev/null");
  check_bad_output("--export", "file");
  check_bad_output("--export", "file/below");
  check_bad_output("--export", "missing/out");
  check_bad_output("--export", "/proc/x");
  check_bad_output("--export", ".");
  check_bad_output("--trace", "missing/trace.json");
}

TEST_CASE("01: a standard output that takes nothing is an error") {
  std::string command = program_path("lessons/01_single_gpu/01_single_gpu");
  for (const std::string& flag : kRun) command += " " + flag;
  const ProcessResult result = run_process({"sh", "-c", command + " > /dev/full"});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, ContainsSubstring("standard output"));
}

}  // namespace
}  // namespace ladder
