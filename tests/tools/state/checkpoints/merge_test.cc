// Weights with adapters added to them give what the layers gave with their adapters.
#include "tools/state/checkpoints/merge.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/io/safetensors.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tools/programs/process.h"
#include "tools/state/logits/logits.h"

namespace ladder {
namespace {

using Values = std::vector<double>;

// What peft computed (tests/golden/make_lora_golden.py).
class Golden {
 public:
  explicit Golden(const std::string& name)
      : folder("tests/golden/lora/" + name), reader_(folder + "/golden.safetensors") {}

  const std::string folder;
  const SafetensorsReader& reader() const { return reader_; }
  Values values(const std::string& name) const {
    const SafetensorsEntry& entry = *reader_.find(name);
    Values values(entry.num_elements());
    reader_.read(entry, {values.data(), DType::fp64, DeviceType::cpu, {values.size()}});
    return values;
  }
  // The tokens of the first of two sequences.
  std::vector<int32_t> tokens() const {
    const Values all = values("tokens");
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2)};
  }
  // Writes the weights without adapters as transformers does.
  std::string write_base(const TestFolder& scratch) const {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (const SafetensorsEntry& entry : reader_.entries()) {
      if (!entry.name.starts_with("param.")) continue;
      tensors.push_back({entry.name.substr(6), DType::fp64, entry.shape});
    }
    SafetensorsWriter writer(scratch / "model.safetensors", tensors);
    for (const auto& tensor : tensors) {
      Values numbers = values("param." + tensor.name);
      writer.write(ConstTensorView(numbers.data(), DType::fp64, DeviceType::cpu, {numbers.size()}));
    }
    writer.finish();
    scratch.write("config.json", text_of(folder + "/config.json"));
    return scratch.path();
  }

 private:
  SafetensorsReader reader_;
};

// The largest difference, relative to the largest expected number.
double difference(const Values& values, const Values& expected) {
  double off = 0, scale = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    off = std::max(off, std::abs(values[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return off / scale;
}

TEST_CASE("a merged model has the logits of the model with adapters, and peft's weights") {
  const std::string name = GENERATE("gpt2", "llama");
  CAPTURE(name);
  const Golden golden(name);
  const TestFolder scratch, parent;
  const std::string base = golden.write_base(scratch), out = parent / "out";
  merge(base, golden.folder, out);
  // Weights are rounded to fp32 when they are written: 2^-24 of each.
  const SafetensorsReader merged(out + "/model.safetensors");
  size_t compared = 0;
  for (const SafetensorsEntry& entry : golden.reader().entries()) {
    if (!entry.name.starts_with("merged.")) continue;
    const std::string prefix = name == "gpt2" ? "" : "model.";
    const SafetensorsEntry& ours = *merged.find(prefix + entry.name.substr(7));
    Values values(ours.num_elements());
    merged.read(ours, {values.data(), DType::fp64, DeviceType::cpu, {values.size()}});
    CHECK(difference(values, golden.values(entry.name)) <= 0x1p-24);
    ++compared;
  }
  CHECK(compared == (name == "gpt2" ? 4 : 6));
  // Unmerged, all is fp64 and the bound is that of other goldens. Merged, the rounding of weights
  // goes through some ten products in a row, which may each add as much: 10 * 2^-24.
  const Values all = golden.values("logits");
  const Values expected(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  const auto off = [&](const std::string& folder, const std::string& adapters) {
    return difference(logits_of(folder, golden.tokens(), DType::fp64, adapters).values, expected);
  };
  CHECK(off(base, golden.folder) <= 1e-12);
  CHECK(off(out, "") <= 10 * 0x1p-24);
  CHECK(off(base, "") > 0.01);  // the adapters count
}

TEST_CASE("in fp64 a layer gives the same with its weight merged, to rounding") {
  const bool out_first = GENERATE(false, true);
  const size_t in = 5, out = 7, rank = 3;
  const auto numbers = [](size_t count, double first) {
    Values values;
    for (size_t i = 0; i < count; ++i) values.push_back(std::sin(first + static_cast<double>(i)));
    return values;
  };
  const auto view = [](Values& values, const Shape& shape) {
    return TensorView(values.data(), DType::fp64, DeviceType::cpu, shape);
  };
  const Values weight = numbers(in * out, 1), a = numbers(rank * in, 2), b = numbers(out * rank, 3);
  Values merged = weight, a_scratch = a, b_view = b;
  Stream stream(DeviceType::cpu);
  merge_adapter(stream, view(merged, out_first ? Shape{out, in} : Shape{in, out}),
                view(a_scratch, {rank, in}), view(b_view, {out, rank}), 2.5, out_first);
  stream.synchronize();
  Values expected = weight;
  for (size_t i = 0; i < in; ++i) {
    for (size_t o = 0; o < out; ++o) {
      for (size_t k = 0; k < rank; ++k) {
        expected[out_first ? o * in + i : i * out + o] += 2.5 * a[k * in + i] * b[o * rank + k];
      }
    }
  }
  CHECK(difference(merged, expected) < 1e-15);  // sums of four terms
}

TEST_CASE("the program merges, and refuses what does not fit") {
  const Golden golden("gpt2"), other("llama");
  const TestFolder scratch, parent;
  const std::string base = golden.write_base(scratch);
  const auto run = [](const std::string& from, const std::string& adapters,
                      const std::string& out) {
    return run_process({"tools/state/checkpoints/checkpoints", "merge", from, adapters, out});
  };
  CHECK(run(base, golden.folder, parent / "out").status == 0);
  CHECK(std::filesystem::exists(parent / "out/config.json"));
  CHECK_FALSE(std::filesystem::exists(parent / "out/adapter_config.json"));
  const ProcessResult wrong = run(base, other.folder, parent / "other");
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.err, ContainsSubstring("and no block of the model has a"));
  CHECK(run(base, base, parent / "other").status == 2);
  CHECK_FALSE(std::filesystem::exists(parent / "other"));
}

}  // namespace
}  // namespace ladder
