// What a model starts from: initialization by (seed, name, index), and weights files.
#include "common/model/weights.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>

#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kConfig = {
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
  explicit WeightsFolder(const ModelConfig& config = kConfig) : layout(config, 1) {
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
  std::string fault() const;

  const Layout layout;
  std::vector<FileTensor> tensors;

 private:
  std::string path_;
};

// The message of the UserError that `body` throws about the folder's file, without its beginning.
std::string fault_of(const WeightsFolder& folder, const std::function<void()>& body) {
  try {
    body();
  } catch (const UserError& error) {
    const std::string text = error.what(), start = concat("--init ", folder.path(), ": ");
    CHECK(text.starts_with(start));
    return text.substr(std::min(start.size(), text.size()));
  }
  return "nothing";
}

std::string WeightsFolder::fault() const {
  const std::string text = fault_of(*this, [&] { open(); });
  CHECK(text.find('\n') == std::string::npos);
  return text;
}

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

// What reading this parameter says, which checking all values must say too.
std::string read_fault(const WeightsFolder& folder, const std::string& name, DType dtype) {
  const WeightsFile file = folder.open();
  std::string fault;
  for (const Unit& unit : folder.layout.units()) {
    for (const Parameter& p : unit.parameters) {
      if (p.name != name) continue;
      const Tensor tensor(memory(), Category::workspace, dtype, p.shape);
      fault = fault_of(folder, [&] { file.read(p, tensor); });
    }
  }
  CHECK(fault_of(folder, [&] { file.check_values(folder.layout, dtype); }) == fault);
  return fault;
}

TEST_CASE("a weight that is no number, in the file or in the run's dtype, is named") {
  WeightsFolder folder;
  const std::string name = "h.1.mlp.c_fc.weight";
  FileTensor& tensor = folder.tensor(name);
  double& value = tensor.values[60 * 3 + 17];  // (15, 60)
  const std::string where = "tensor h.1.mlp.c_fc.weight, element (3, 17), is ";
  SECTION("in the file") {
    tensor.dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16);
    const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16);
    value = std::nan("");
    CHECK_THAT(read_fault(folder, name, dtype),
               StartsWith(where) && ContainsSubstring("nan; weights are finite"));
    value = -std::numeric_limits<double>::infinity();
    CHECK(read_fault(folder, name, dtype) == where + "-inf; weights are finite numbers");
  }
  SECTION("in the dtype of the run") {
    value = 65520;  // rounds to 65,536
    CHECK(read_fault(folder, name, DType::fp16) ==
          where + "65520, beyond the largest number of fp16; take --dtype fp32");
    for (DType dtype : {DType::fp32, DType::fp64, DType::bf16}) {
      CHECK(read_fault(folder, name, dtype) == "nothing");
    }
    value = -1e39;
    for (DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      CHECK(read_fault(folder, name, dtype) == concat(where,
                                                      "-1e+39, beyond the largest number of ",
                                                      name_of(dtype), "; take --dtype fp64"));
    }
    CHECK(read_fault(folder, name, DType::fp64) == "nothing");
  }
  SECTION("the largest numbers of a dtype are in its range") {
    value = 65504;
    CHECK(read_fault(folder, name, DType::fp16) == "nothing");
    value = std::numeric_limits<float>::max();
    CHECK(read_fault(folder, name, DType::fp32) == "nothing");
  }
  SECTION("the last element of the last tensor") {
    folder.tensor("ln_f.bias").values.back() = std::nan("");
    CHECK_THAT(read_fault(folder, "ln_f.bias", DType::fp32),
               StartsWith("tensor ln_f.bias, element (14), is "));
  }
  SECTION("a NaN is not blamed on a head that has it too") {
    folder.tensor("wte.weight").values[5] = std::nan("");
    FileTensor head = folder.tensor("wte.weight");
    head.name = "lm_head.weight";
    folder.tensors.push_back(head);
    CHECK_THAT(read_fault(folder, "wte.weight", DType::fp32),
               StartsWith("tensor wte.weight, element (0, 5), is "));
  }
}

TEST_CASE("a model with shorter sequences has the first positions of the file") {
  WeightsFolder folder;
  FileTensor& positions = folder.tensor("wpe.weight");
  const Values first = positions.values;
  positions.shape = {13, 15};
  positions.values.resize(13 * 15, 1e30);  // beyond fp16, and not asked for
  const Parameter& wpe = folder.layout.unit(1).parameters[0];
  REQUIRE(wpe.name == "wpe.weight");
  const WeightsFile file = folder.open();
  for (DType dtype : {DType::fp64, DType::fp16}) {
    const Tensor tensor(memory(), Category::workspace, dtype, wpe.shape);
    file.read(wpe, tensor);
    Values expected = first;
    for (double& value : expected) value = stored(dtype, value);
    CHECK(values_of(tensor) == expected);
  }
}

TEST_CASE("a dump's parameters are weights, and the rest of it is ignored") {
  WeightsFolder folder;
  const std::vector<FileTensor> good = folder.tensors;
  for (FileTensor& t : folder.tensors) t.name = "param." + t.name;
  folder.add("loss", {1});
  folder.add("grad_norm", {1});
  for (const std::string kind : {"grad.", "exp_avg.", "exp_avg_sq."}) {
    for (const FileTensor& t : good) {
      folder.tensors.push_back(t);
      folder.tensors.back().name = kind + t.name;
      std::ranges::fill(folder.tensors.back().values, std::nan(""));
    }
  }
  const WeightsFile file = folder.open();
  for (const Unit& unit : folder.layout.units()) {
    for (const Parameter& p : unit.parameters) {
      const Tensor tensor(memory(), Category::workspace, DType::fp64, p.shape);
      file.read(p, tensor);
      CHECK(values_of(tensor) == folder.tensor("param." + p.name).values);
    }
  }
  folder.add("momentum", {1});
  CHECK(folder.fault() == "tensor \"momentum\" is not part of the model");
  folder.tensors.pop_back();
  folder.add("wte.weight", {37, 15});
  CHECK(folder.fault() == "tensor wte.weight is there twice, with different prefixes");
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
      "tensor lm_head.weight differs from wte.weight; a tied model has one tensor for both, "
      "--untied two";
  CHECK(folder.fault() == differs);
  folder.tensors.back().values.back() = std::nan("");
  CHECK(folder.fault() == differs);
  folder.tensors.back().values = folder.tensor("wte.weight").values;
  folder.tensors.back().dtype = DType::fp32;  // rounded
  CHECK(folder.fault() == differs);
  folder.tensors.back() = {"lm_head.weight", DType::fp64, {15, 37}, Values(555)};
  CHECK(folder.fault() == differs);
}

TEST_CASE("a Llama's weights have the prefix model., frequencies and a tied head or not") {
  ModelConfig config = find_preset("nano-llama").config;
  config.biases = Biases::qkv;
  WeightsFolder folder(config);
  const std::vector<FileTensor> good = folder.tensors;
  for (FileTensor& t : folder.tensors) t.name = "model." + t.name;
  folder.add("model.layers.0.self_attn.rotary_emb.inv_freq", {8});
  CHECK(folder.fault() == "nothing");
  const WeightsFile file = folder.open();
  for (const Unit& unit : folder.layout.units()) {
    for (const Parameter& p : unit.parameters) {
      const Tensor tensor(memory(), Category::workspace, DType::fp64, p.shape);
      file.read(p, tensor);
      CHECK(values_of(tensor) == folder.tensor("model." + p.name).values);
    }
  }
  FileTensor head = folder.tensor("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  folder.tensors.push_back(head);
  CHECK(folder.fault() == "nothing");
  folder.tensors.back().values.back() += 1e-9;
  CHECK(folder.fault() ==
        "tensor lm_head.weight differs from model.embed_tokens.weight; a tied model has one tensor "
        "for both, --untied two");
  folder.tensors.pop_back();
  folder.add("model.layers.0.self_attn.o_proj.bias", {32});
  CHECK(folder.fault() ==
        "tensor \"model.layers.0.self_attn.o_proj.bias\" is not part of the model");
}

TEST_CASE("a tied head is compared to its last element, however large it is") {
  WeightsFolder folder({.num_layers = 1,
                        .num_heads = 1,
                        .hidden = 4,
                        .vocab_size = 40'000,  // 160,000 elements
                        .sequence_length = 2});
  FileTensor head = folder.tensor("wte.weight");
  head.name = "lm_head.weight";
  folder.tensors.push_back(head);
  CHECK(folder.fault() == "nothing");
  const size_t at = GENERATE(size_t{0}, size_t{65'535}, size_t{65'536}, size_t{159'999});
  folder.tensors.back().values[at] += 1;
  CHECK_THAT(folder.fault(), StartsWith("tensor lm_head.weight differs from wte.weight"));
}

TEST_CASE("all values of a large tensor are checked") {
  WeightsFolder folder({.num_layers = 1,
                        .num_heads = 1,
                        .hidden = 4,
                        .vocab_size = 40'000,  // 160,000 elements
                        .sequence_length = 2});
  const auto [at, element] = GENERATE(table<size_t, std::string>(
      {{0, "(0, 0)"}, {65'535, "(16383, 3)"}, {65'536, "(16384, 0)"}, {159'999, "(39999, 3)"}}));
  folder.tensor("wte.weight").values[at] = 1e5;
  CHECK(read_fault(folder, "wte.weight", DType::fp16) ==
        concat("tensor wte.weight, element ", element,
               ", is 100000, beyond the largest number of fp16; take --dtype fp32"));
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
          folder.tensor("wpe.weight").shape = {10, 15};
          folder.tensor("wpe.weight").values.resize(150);
        }) == "tensor wpe.weight has 10 positions, fewer than --sequence-length 11");
  CHECK(fault_after([&] {
          folder.tensor("wte.weight").shape = {38, 15};
          folder.tensor("wte.weight").values.resize(570);
        }) == "tensor wte.weight has shape (38, 15), the model needs (37, 15)");
  CHECK(fault_after([&] { folder.add("x\n\x1b[31m", {15}); }) ==
        "tensor \"x\\n\\u001b[31m\" is not part of the model");
  CHECK(fault_after([&] { folder.add("loss", {1}); }) ==
        "tensor \"loss\" is not part of the model");
  CHECK(fault_after([&] {
          folder.tensor("ln_f.bias").shape = {15, 1};
        }) == "tensor ln_f.bias has shape (15, 1), the model needs (15)");
  CHECK(fault_after([&] { folder.tensor("h.1.ln_2.bias").dtype = DType::int32; }) ==
        "tensor h.1.ln_2.bias is I32, expected F32, F64, BF16 or F16");
  CHECK(fault_after([&] { folder.add("h.2.ln_1.weight", {15}); }) ==
        "tensor \"h.2.ln_1.weight\" is not part of the model");
  CHECK(fault_after([&] { folder.add("bias", {15}); }) ==
        "tensor \"bias\" is not part of the model");
  CHECK(fault_after([&] { folder.add("transformer.ln_f.weight", {15}); }) ==
        "tensor ln_f.weight is there twice, with different prefixes");
  CHECK(fault_after([] {}) == "nothing");
}

}  // namespace
}  // namespace ladder::testing
