#include "tests/system/single_gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {

using Json = nlohmann::ordered_json;

std::string program_path(const std::string& path_from_root) {
  const char* const runfiles = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  check(runfiles != nullptr && workspace != nullptr, "run this through `bazel test`");
  return std::filesystem::path(runfiles) / workspace / path_from_root;
}

std::string lesson_path(const std::string& lesson) {
  return program_path("lessons/" + lesson + "/" + lesson);
}

ProcessResult run_single_gpu(const Flags& flags, const ProcessOptions& options) {
  return run_process(Flags{lesson_path("01_single_gpu")} + flags, options);
}

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void check_user_error(const ProcessResult& result, const std::vector<std::string>& mentions) {
  CAPTURE(result.out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 2);
  CHECK(result.err.starts_with("error: "));
  CHECK(result.err.find('\n') + 1 == result.err.size());
  for (const std::string& mention : mentions) CHECK_THAT(result.err, ContainsSubstring(mention));
}

void check_equal_dumps(const std::string& a, const std::string& b, const std::string& tolerance,
                       const ProcessOptions& options) {
  const ProcessResult compared = run_process(
      {program_path("tools/state/comparison/comparison"), a, b, "--tolerance", tolerance}, options);
  CAPTURE(a, b, compared.out, compared.err);
  CHECK(compared.status == 0);
}

Flags ModelSize::flags() const {
  return {"--layers",          std::to_string(layers),         "--heads", std::to_string(heads),
          "--hidden",          std::to_string(hidden),         "--vocab", std::to_string(vocab),
          "--sequence-length", std::to_string(sequence_length)};
}

std::map<std::string, std::vector<size_t>> gpt2_shapes(const ModelSize& size) {
  const size_t c = size.hidden;
  std::map<std::string, std::vector<size_t>> shapes = {{"wte.weight", {size.vocab, c}},
                                                       {"wpe.weight", {size.sequence_length, c}},
                                                       {"ln_f.weight", {c}},
                                                       {"ln_f.bias", {c}}};
  for (size_t layer = 0; layer < size.layers; ++layer) {
    const std::string block = concat("h.", layer, ".");
    shapes.merge(
        std::map<std::string, std::vector<size_t>>{{block + "ln_1.weight", {c}},
                                                   {block + "ln_1.bias", {c}},
                                                   {block + "attn.c_attn.weight", {c, 3 * c}},
                                                   {block + "attn.c_attn.bias", {3 * c}},
                                                   {block + "attn.c_proj.weight", {c, c}},
                                                   {block + "attn.c_proj.bias", {c}},
                                                   {block + "ln_2.weight", {c}},
                                                   {block + "ln_2.bias", {c}},
                                                   {block + "mlp.c_fc.weight", {c, 4 * c}},
                                                   {block + "mlp.c_fc.bias", {4 * c}},
                                                   {block + "mlp.c_proj.weight", {4 * c, c}},
                                                   {block + "mlp.c_proj.bias", {c}}});
  }
  return shapes;
}

double flops_per_token(const ModelSize& size) {
  double num_parameters = 0;
  for (const auto& [name, shape] : gpt2_shapes(size)) {
    double product = 1;
    for (const size_t extent : shape) product *= static_cast<double>(extent);
    if (name != "wpe.weight") num_parameters += product;
  }
  return 6 * num_parameters +
         12 * static_cast<double>(size.layers * size.hidden * size.sequence_length);
}

Safetensors Safetensors::parse(const std::string& file) {
  uint64_t length = 0;
  REQUIRE(file.size() >= sizeof length);
  std::memcpy(&length, file.data(), sizeof length);
  REQUIRE(length <= file.size() - sizeof length);
  return {Json::parse(file.substr(sizeof length, length)), file.substr(sizeof length + length)};
}

std::string Safetensors::text() const {
  const std::string json = header.dump();
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json + data;
}

void Safetensors::add(const std::string& name, const std::vector<size_t>& shape,
                      const std::string& dtype) {
  size_t bytes = dtype == "F64" ? 8 : dtype == "F32" ? 4 : dtype.ends_with("F16") ? 2 : 1;
  for (const size_t extent : shape) bytes *= extent;
  header[name] = {
      {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
  data.append(bytes, '\0');
}

std::string Safetensors::bytes_of(const std::string& name) const {
  const Json& offsets = header.at(name).at("data_offsets");
  const size_t begin = offsets.at(0), end = offsets.at(1);
  return data.substr(begin, end - begin);
}

double Safetensors::number(const std::string& name) const {
  REQUIRE(header.at(name).at("dtype") == "F64");
  double value = 0;
  std::memcpy(&value, bytes_of(name).data(), sizeof value);
  return value;
}

Safetensors zero_weights(const ModelSize& size) {
  Safetensors file;
  for (const auto& [name, shape] : gpt2_shapes(size)) file.add(name, shape);
  return file;
}

std::string token_shard(const std::vector<uint16_t>& tokens, int32_t magic, int32_t version) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens.size());
  const auto bytes = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof values[0]);
  };
  return bytes(header) + bytes(tokens);
}

}  // namespace ladder
