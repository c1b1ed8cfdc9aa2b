// What a model starts from: initialization by (seed, name, index), and weights files.
#include "common/model/weights.h"

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr Gpt2Config kConfig = {
    .num_layers = 2, .num_heads = 3, .hidden = 15, .vocab_size = 37, .sequence_length = 11};

// The flat buffer, initialized in `parts` equal spans from the last to the first; padding is -1.
Values initialized(const Layout& layout, DType dtype, uint64_t seed, size_t parts) {
  const size_t n = layout.num_elements(), span = n / parts;
  REQUIRE(span * parts == n);
  const Tensor flat(memory(), Category::parameters, dtype, {n});
  fill(stream(), flat, -1);
  for (size_t part = parts; part-- > 0;) {
    initialize_parameters(stream(), layout, seed, part * span, flat.view().rows(part * span, span));
  }
  return values_of(flat);
}

// The tensors of a flat buffer, one after the other, without padding.
Values without_padding(const Layout& layout, const Values& flat) {
  Values values;
  for (const Unit& unit : layout.units()) {
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(unit.offset);
    values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(unit.num_elements));
  }
  return values;
}

TEST_CASE("every rank can make any shard: the same bits whole, in shards, in any layout") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const size_t world_size = GENERATE(1, 2, 3, 8);
  CAPTURE(dtype, world_size);
  const Layout layout(kConfig, world_size), one(kConfig, 1);
  const Values whole = initialized(layout, dtype, 7, 1);
  CHECK(initialized(layout, dtype, 7, world_size) == whole);
  CHECK(initialized(layout, dtype, 7, layout.num_elements() / 16) == whole);
  CHECK(without_padding(layout, whole) == without_padding(one, initialized(one, dtype, 7, 1)));

  const auto padding = std::ranges::count(whole, -1.0);
  CHECK(static_cast<size_t>(padding) == layout.num_elements() - layout.num_parameters());
  CHECK(initialized(layout, dtype, 8, 1) != whole);
}

TEST_CASE("fp32 starts where fp64 does, rounded") {
  const Layout layout(kConfig, 1);
  const Values fp64 = initialized(layout, DType::fp64, 1, 1);
  const Values fp32 = initialized(layout, DType::fp32, 1, 1);
  // An integer times a factor: fp32 rounds the factor and the product, fp64 next to nothing.
  for (size_t i = 0; i < fp64.size(); ++i) {
    if (!(std::abs(fp32[i] - fp64[i]) <= 2.01 * 0x1p-24 * std::abs(fp64[i]))) {
      FAIL_CHECK(concat("element ", i, ": ", fp32[i], " and ", fp64[i]));
    }
  }
}

TEST_CASE("matrices are normal, with the deviation that the layout says") {
  const Layout layout({2, 2, 64, 300, 128}, 1);
  const Values flat = initialized(layout, DType::fp64, 1, 1);
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      INFO(p.name);
      const size_t n = p.shape.num_elements();
      const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(unit.offset + p.offset);
      const Values values(begin, begin + static_cast<std::ptrdiff_t>(n));
      if (p.initial_deviation == 0) {
        CHECK(values == Values(n, p.initial_value));
        continue;
      }
      double mean = 0, square = 0;
      for (double value : values) mean += value / static_cast<double>(n);
      for (double value : values) square += value * value / static_cast<double>(n);
      // Five standard deviations of the mean, and of the mean square (of a normal: sqrt(2 / n); of
      // a sum of eight uniform numbers less).
      const double sigma = p.initial_deviation, root = std::sqrt(static_cast<double>(n));
      CHECK(std::abs(mean) <= 5 * sigma / root);
      CHECK(std::abs(square / (sigma * sigma) - 1) <= 5 * std::sqrt(2.0) / root);
      CHECK(largest(values) <= 262'140 / kNormalDeviation * sigma * (1 + 1e-15));
    }
  }
}

TEST_CASE("tensors of one shape start with different numbers") {
  const Layout layout(kConfig, 1);
  const Values flat = initialized(layout, DType::fp64, 1, 1);
  const auto first = [&](size_t layer) {
    const Unit& block = layout.unit(2 + layer);  // after the embeddings
    return flat[block.offset + block.parameters[2].offset];
  };
  CHECK(first(0) != first(1));
}

// A tensor of a weights file under construction.
struct FileTensor {
  std::string name;
  DType dtype;
  std::vector<size_t> shape;
  Values values;
};

// The tensors that the model needs; each change is applied before they are written.
class WeightsFolder {
 public:
  WeightsFolder() {
    const char* const parent = std::getenv("TEST_TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/weights_XXXXXX";
    REQUIRE(mkdtemp(path_.data()) != nullptr);
    for (const Unit& unit : layout.units()) {
      for (const Parameter& p : unit.parameters) {
        std::vector<size_t> shape;
        for (size_t dim = 0; dim < p.shape.num_dims(); ++dim) shape.push_back(p.shape[dim]);
        const Values values = normal_values(p.shape.num_elements(), p.name, 1);
        tensors.push_back({p.name, DType::fp64, shape, values});
      }
    }
  }
  ~WeightsFolder() { std::filesystem::remove_all(path_); }
  WeightsFolder(const WeightsFolder&) = delete;

  FileTensor& tensor(const std::string& name) {
    const auto found = std::ranges::find(tensors, name, &FileTensor::name);
    REQUIRE(found != tensors.end());
    return *found;
  }
  void add(const std::string& name, const std::vector<size_t>& shape) {
    size_t n = 1;
    for (size_t extent : shape) n *= extent;
    tensors.push_back({name, DType::fp64, shape, Values(n, 0.5)});
  }
  std::string path() const { return path_ + "/weights.safetensors"; }
  WeightsFile open() const {
    std::vector<SafetensorsWriter::Tensor> declared;
    for (const FileTensor& t : tensors) declared.push_back({t.name, t.dtype, t.shape});
    SafetensorsWriter writer(path(), declared);
    for (const FileTensor& t : tensors) {
      const Tensor data(memory(), Category::workspace, t.dtype, {t.values.size()});
      if (t.dtype != DType::int32) set_values(data, t.values);
      writer.write(data);
    }
    writer.finish();
    return WeightsFile(path(), layout);
  }
  // What opening the file says is wrong, without the beginning that names the file.
  std::string fault() const {
    try {
      open();
    } catch (const UserError& error) {
      const std::string text = error.what(), start = concat("--init ", path(), ": ");
      CHECK(text.starts_with(start));
      CHECK(text.find('\n') == std::string::npos);
      return text.substr(std::min(start.size(), text.size()));
    }
    return "nothing";
  }

  const Layout layout{kConfig, 1};
  std::vector<FileTensor> tensors;

 private:
  std::string path_;
};

// What `value` becomes in memory of the dtype, or in a file.
double stored(DType dtype, double value) {
  return dispatch_float(dtype, [value](auto zero) {
    return static_cast<double>(static_cast<decltype(zero)>(value));
  });
}

TEST_CASE("a weights file is read into the model's dtype, with and without prefix") {
  const std::string prefix = GENERATE("", "transformer.");
  const DType in_file = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16),
              dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16);
  WeightsFolder folder;
  std::ranges::reverse(folder.tensors);  // any order will do
  for (FileTensor& t : folder.tensors) {
    t.name = prefix + t.name;
    t.dtype = in_file;
  }
  const WeightsFile file = folder.open();
  for (const Unit& unit : folder.layout.units()) {
    for (const Parameter& p : unit.parameters) {
      const Tensor tensor(memory(), Category::workspace, dtype, p.shape);
      file.read(p, tensor);
      Values expected = folder.tensor(prefix + p.name).values;
      for (double& value : expected) value = stored(dtype, stored(in_file, value));
      CHECK(values_of(tensor) == expected);
    }
  }
}

TEST_CASE("masks and a tied head are welcome") {
  WeightsFolder folder;
  folder.add("h.0.attn.bias", {1, 1, 11, 11});
  folder.add("transformer.h.1.attn.bias", {1, 1, 11, 11});
  folder.add("h.1.attn.masked_bias", {1});
  FileTensor head = folder.tensor("wte.weight");
  head.name = "lm_head.weight";
  folder.tensors.push_back(head);
  CHECK(folder.fault() == "nothing");

  folder.tensors.back().values.back() += 1e-9;
  const std::string differs =
      "lm_head.weight differs from wte.weight; GPT-2 uses one tensor for both";
  CHECK(folder.fault() == differs);
  folder.tensors.back().values.back() = std::nan("");
  CHECK(folder.fault() == differs);
  folder.tensors.back() = {"lm_head.weight", DType::fp64, {15, 37}, Values(555)};
  CHECK(folder.fault() == differs);
}

TEST_CASE("what is wrong with a weights file is said in one line that names the tensor") {
  WeightsFolder folder;
  const auto fault_after = [&](const std::function<void()>& change) {
    const std::vector<FileTensor> good = folder.tensors;
    change();
    const std::string fault = folder.fault();
    folder.tensors = good;
    return fault;
  };
  CHECK(fault_after([&] { folder.tensors.pop_back(); }) == "tensor ln_f.bias is missing");
  CHECK(fault_after([&] { folder.tensors.erase(folder.tensors.begin()); }) ==
        "tensor wte.weight is missing");
  CHECK(fault_after([&] {
          folder.tensor("wpe.weight").shape = {15, 11};
        }) == "tensor wpe.weight has shape (15, 11), the model needs (11, 15)");
  CHECK(fault_after([&] {
          folder.tensor("ln_f.bias").shape = {15, 1};
        }) == "tensor ln_f.bias has shape (15, 1), the model needs (15)");
  CHECK(fault_after([&] { folder.tensor("h.1.ln_2.bias").dtype = DType::int32; }) ==
        "tensor h.1.ln_2.bias is I32, expected F32, F64, BF16 or F16");
  CHECK(fault_after([&] { folder.add("h.2.ln_1.weight", {15}); }) ==
        "tensor h.2.ln_1.weight is not part of the model");
  CHECK(fault_after([&] { folder.add("bias", {15}); }) == "tensor bias is not part of the model");
  CHECK(fault_after([&] { folder.add("transformer.ln_f.weight", {15}); }) ==
        "tensor ln_f.weight is there twice, with and without transformer.");
  CHECK(fault_after([] {}) == "nothing");
}

}  // namespace
}  // namespace ladder::testing
