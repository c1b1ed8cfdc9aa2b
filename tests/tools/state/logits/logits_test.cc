// Models that transformers saved, each in three files, have the logits that transformers computed.
#include "tools/state/logits/logits.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "common/io/safetensors.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tools/programs/process.h"

namespace ladder {
namespace {

const std::string kGolden = "tests/golden/gpt2_transformers";
// Its files have bf16, its heads of k and v are fewer, and its frequencies are stretched.
const std::string kLlama = "tests/golden/llama_transformers";

std::vector<double> golden(const std::string& name, const std::string& folder = kGolden) {
  const SafetensorsReader reader(folder + "/logits.safetensors");
  const SafetensorsEntry& entry = *reader.find(name);
  std::vector<double> values(entry.num_elements());
  reader.read(entry, {values.data(), DType::fp64, DeviceType::cpu, {values.size()}});
  return values;
}

std::vector<int32_t> golden_tokens() {
  const std::vector<double> tokens = golden("tokens");
  return {tokens.begin(), tokens.end()};
}

// The largest difference, relative to the largest expected logit; infinite if one is NaN.
double difference(const std::vector<double>& values, const std::string& folder = kGolden) {
  const std::vector<double> expected = golden("logits", folder);
  REQUIRE(values.size() == expected.size());
  double largest = 0, scale = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = std::abs(values[i] - expected[i]);
    largest = off <= 1e300 ? std::max(largest, off) : INFINITY;
    scale = std::max(scale, std::abs(expected[i]));
  }
  return largest / scale;
}

TEST_CASE("a sharded folder of transformers gives its logits to rounding") {
  // Two blocks have some twenty operations in a row, each with sums of at most 48 products of
  // numbers about 1. 200 units of the last place are ten for each operation.
  const auto [dtype, unit] =
      GENERATE(table<DType, double>({{DType::fp64, 0x1p-53}, {DType::fp32, 0x1p-24}}));
  const std::string folder = GENERATE(kGolden, kLlama);
  CAPTURE(dtype, folder);
  const Logits logits = logits_of(folder, golden_tokens(), dtype);
  CHECK(logits.vocab_size == 40);
  const double off = difference(logits.values, folder);
  CHECK(off <= 200 * unit);
  CHECK(off > 0);  // two programs that round in different places
}

// A copy of a golden folder that a test may change.
class Copy : public TestFolder {
 public:
  explicit Copy(const std::string& folder = kGolden) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      write(entry.path().filename(), text_of(entry.path()));
    }
  }
  // Replaces the first `from` in a file.
  void change(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = text_of(*this / name);
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    write(name, text.replace(at, from.size(), to));
  }
};

TEST_CASE("the bound of the logits tells other heads, and one changed byte of a weight") {
  const Copy heads, byte;
  heads.change("config.json", "\"n_head\": 2", "\"n_head\": 3");
  CHECK(difference(logits_of(heads.path(), golden_tokens(), DType::fp32).values) > 1e-3);
  std::string file = text_of(byte / "model-00003-of-00003.safetensors");
  file[file.size() - 2] = static_cast<char>(file[file.size() - 2] ^ 0x40);  // of an exponent
  byte.write("model-00003-of-00003.safetensors", file);
  CHECK(difference(logits_of(byte.path(), golden_tokens(), DType::fp32).values) > 1e-3);
}

TEST_CASE("the bound of the logits tells other rotary positions and another norm") {
  const auto [from, to] = GENERATE(table<std::string, std::string>({
      {"\"factor\": 32.0", "\"factor\": 8.0"},
      {"\"rope_theta\": 500000.0", "\"rope_theta\": 10000.0"},
      {"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e-03"},
  }));
  CAPTURE(from);
  const Copy copy(kLlama);
  copy.change("config.json", from, to);
  CHECK(difference(logits_of(copy.path(), golden_tokens(), DType::fp32).values, kLlama) > 1e-3);
}

TEST_CASE("tokens and folders that do not fit are refused") {
  const auto refusal = [](const std::string& folder, const std::vector<int32_t>& tokens) {
    try {
      logits_of(folder, tokens, DType::fp32);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(kGolden, {}) == "--tokens: 0 tokens, expected from 1 to 16");
  CHECK(refusal(kGolden, std::vector<int32_t>(17)) == "--tokens: 17 tokens, expected from 1 to 16");
  CHECK(refusal(kGolden, {40}) == "--tokens: 40 is not in the vocabulary of 40");
  CHECK(refusal(kGolden, {-1}) == "--tokens: -1 is not in the vocabulary of 40");
  CHECK_THAT(refusal("none", {1}), StartsWith("--init none/config.json: cannot be read"));
  const Copy copy;
  std::filesystem::remove(copy / "model-00002-of-00003.safetensors");
  CHECK_THAT(refusal(copy.path(), {1}),
             StartsWith("--init " + copy / "model-00002-of-00003.safetensors: cannot be"));
}

TEST_CASE("the program prints a line of logits for each token") {
  const auto run = [](const std::string& tokens) {
    return run_process(
        {"tools/state/logits/logits", "--init", kGolden, "--dtype", "fp64", "--tokens", tokens});
  };
  const ProcessResult result = run("3,10,31");
  CHECK(result.status == 0);
  CHECK(std::ranges::count(result.out, '\n') == 3);
  std::istringstream in(result.out);
  std::vector<double> printed;
  for (double value = 0; in >> value;) printed.push_back(value);
  CHECK(printed == logits_of(kGolden, {3, 10, 31}, DType::fp64).values);
  CHECK(run("3,x").status == 2);
  CHECK(run("99").status == 2);
}

}  // namespace
}  // namespace ladder
