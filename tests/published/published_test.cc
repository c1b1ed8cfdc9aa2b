// What others published agrees with itself, so nothing was copied wrongly, and with the formulas
// that its authors give.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "common/cluster/cluster.h"
#include "common/io/json_file.h"
#include "common/model/activations.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr double kGiB = 1 << 30;

// A row of a file, with the file's values for all rows.
struct Row {
  Json json;
  double operator[](const char* key) const { return json.at(key).get<double>(); }
  std::string model() const { return json.at("model").get<std::string>(); }
};

std::vector<Row> rows_of(const std::string& name, size_t count) {
  Json file = read_json_object("tests/published/" + name + ".json", 1'000'000);
  CHECK(file.at("source").get<std::string>().size() > 10);
  std::vector<Row> rows;
  for (const Json& values : file.at("rows")) {
    Json row = file;
    row.erase("rows");
    row.update(values);
    rows.push_back({row});
  }
  REQUIRE(rows.size() == count);
  return rows;
}

// FLOPs of a step with all activations recomputed. [Narayanan et al. 2021, section 3.3]
double recomputing_flops(const Row& row) {
  const double s = row["sequence_length"], l = row["layers"], h = row["hidden"], v = row["vocab"];
  return 96 * row["global_batch"] * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

// Parameters of a GPT. [the same, section 5.1]
double parameters(const Row& row) {
  const double s = row["sequence_length"], l = row["layers"], h = row["hidden"], v = row["vocab"];
  return 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
}

// The parameters that a name such as "1.7B" says.
double named_parameters(const Row& row) {
  const std::string name = row.model();
  return std::stod(name) * (name.back() == 'T' ? 1e12 : name.back() == 'B' ? 1e9 : 1e6);
}

TEST_CASE("Megatron 2021") {
  for (const Row& row : rows_of("megatron_2021", 10)) {
    CAPTURE(row.model());
    CHECK(parameters(row) == Approx(named_parameters(row)).margin(0.06e9));
    CHECK(row["gpus"] == row["data"] * row["tensor"] * row["pipeline"]);
    CHECK(row["global_batch"] == row["data"] * row["micro_batch"] * row["micro_batches"]);
    CHECK(row["tflops_per_gpu"] * row["gpus"] / 1000 == Approx(row["petaflops"]).epsilon(0.006));
    CHECK(row["tflops_per_gpu"] / 312 * 100 == Approx(row["percent_of_peak"]).margin(0.6));
    CHECK(std::fmod(row["layers"], row["pipeline"] * row["chunks"]) == 0);
  }
  const std::vector<Row> rows = rows_of("megatron_2021", 10);
  const auto seconds = [](const Row& row) {
    return recomputing_flops(row) / (row["tflops_per_gpu"] * 1e12 * row["gpus"]);
  };
  CHECK(seconds(rows[0]) == Approx(3.53).epsilon(0.002));
  CHECK(seconds(rows[9]) == Approx(102.6).epsilon(0.002));
}

// The memory of the first pipeline stage in fp16. [Korthikanti et al. 2022, section 4 and table 2]
// A parameter takes 18 bytes: 2 for its value, 4 for its gradient, which is summed in fp32, and 12
// for the master copy and both moments. 1F1B keeps the activations of p micro-batches of l / p
// layers, interleaved 1F1B 1 + (p-1) / (p v) times as much.
double activation_bytes(const Row& row, double per_element) {
  const double p = row["pipeline"], v = row["chunks"];
  const double elements =
      row["sequence_length"] * row["micro_batch"] * row["hidden"] * row["layers"];
  return elements * per_element * (v > 1 ? 1 + (p - 1) / (p * v) : 1);
}

TEST_CASE("twelve memory values of 2022") {
  for (const Row& row : rows_of("recompute_2022", 4)) {
    CAPTURE(row.model());
    const double t = row["tensor"], a = row["heads"], s = row["sequence_length"], h = row["hidden"];
    const auto same = [](double value) { return Approx(value).epsilon(1e-14); };
    CHECK(activation_bytes(row, 10 + 24 / t + 5 * a * s / (h * t)) / kGiB ==
          same(row["activations_gib"]));
    CHECK(activation_bytes(row, 34 / t) / kGiB ==
          same(row["activations_sequence_parallel_selective_gib"]));
    CHECK(18 * 12 * row["layers"] * h * h / (t * row["pipeline"]) / kGiB ==
          same(row["parameters_and_optimizer_gib"]));
  }
}

// The bytes of a transformer block of the lessons for a row (a token) and an element of the hidden
// size, with t tensor-parallel ranks, in bf16.
double our_bytes(const Row& row, double t) {
  const auto count = [&](const char* key) { return static_cast<size_t>(row[key]); };
  const ModelConfig config = {.num_layers = count("layers"),
                              .num_heads = count("heads"),
                              .hidden = count("hidden"),
                              .vocab_size = count("vocab"),
                              .sequence_length = count("sequence_length")};
  double bytes = 0;
  for (const ActivationSpec& spec : block_activation_specs(dense_sublayers(config))) {
    const double size = spec.kind == ActivationSpec::Kind::rows ? 2 : 4;
    bytes += size * static_cast<double>(spec.columns) / (spec.split ? t : 1);
  }
  return bytes / row["hidden"];
}

// The paper keeps 10 + 24 / t + 5 a s / (h t) bytes. The lessons have no dropout, whose masks take
// 2 of the 10, and no scores of s x s, but the statistics of two norms (16 bytes a row) and of
// attention (4 bytes a row and head).
TEST_CASE("our terms beside the paper's") {
  for (const Row& row : rows_of("recompute_2022", 4)) {
    const double t = row["tensor"], statistics = (16 + 4 * row["heads"] / t) / row["hidden"];
    CHECK(our_bytes(row, t) == Approx(8 + 24 / t + statistics));
    CHECK(our_bytes(row, t) < 10 + 24 / t);
  }
}

TEST_CASE("times of 2022") {
  for (const Row& row : rows_of("recompute_2022", 4)) {
    CAPTURE(row.model());
    CHECK(row["gpus"] == row["tensor"] * row["pipeline"] * row["data"]);
    CHECK(std::fmod(row["layers"], row["pipeline"] * row["chunks"]) == 0);
    CHECK(std::fmod(row["global_batch"], row["micro_batch"]) == 0);
    const double s = row["sequence_length"], l = row["layers"], h = row["hidden"];
    const double flops =
        72 * row["global_batch"] * s * l * h * h * (1 + s / (6 * h) + row["vocab"] / (12 * l * h));
    const double rate = flops / row["sequence_parallel_selective_seconds"] / row["gpus"];
    CHECK(rate / 312e12 * 100 == Approx(row["mfu"]).margin(0.3));
    CHECK(row["recompute_all_seconds"] > 1.25 * row["sequence_parallel_selective_seconds"]);
  }
}

TEST_CASE("Megatron 2024") {
  for (const Row& row : rows_of("megatron_2024", 9)) {
    CAPTURE(row.model());
    CHECK(row["gpus"] == row["tensor"] * row["pipeline"] * row["data"]);
    CHECK(std::fmod(row["global_batch"], row["data"]) == 0);
    CHECK(row["tflops_per_gpu"] / 989 * 100 == Approx(row["percent_of_peak"]).margin(0.6));
  }
}

TEST_CASE("the Playbook") {
  for (const Row& row : rows_of("playbook_2025", 26)) {
    CAPTURE(row.model(), row["nodes"]);
    CHECK(row["nodes"] * 8 == row["data"] * row["tensor"] * row["pipeline"]);
    CHECK(row["global_batch"] == row["data"] * row["micro_batch"] * row["micro_batches"]);
    CHECK(row["gb"] < 80);
    const double h = row["hidden"], tables = row.json.at("tied").get<bool>() ? 1 : 2;
    const double block = 4 * h * h + 3 * h * row["ffn"];
    CHECK(row["layers"] * block + tables * row["vocab"] * h ==
          Approx(named_parameters(row)).epsilon(0.005));
  }
}

TEST_CASE("FSDP") {
  for (const Row& row : rows_of("mpt_fsdp", 108)) {
    CAPTURE(row.model(), row["gpus"], row["sequence_length"]);
    CHECK(row["gpus"] == row["data"]);
    CHECK(std::fmod(row["global_batch"], row["gpus"] * row["micro_batch"]) == 0);
    const double l = row["layers"], h = row["hidden"], s = row["sequence_length"];
    const double tokens = row["tokens_per_second"];
    CHECK(row["global_batch"] * s / tokens == Approx(row["seconds"]).epsilon(1e-4));
    const double n = 12 * l * h * h + (row["vocab"] + s) * h;
    const double peak = row.json.at("device") == "h100" ? 989.4e12 : 312e12;
    const double products = row.json.at("precision") == "amp_fp8" ? 2 : 1;  // of the peak
    CHECK((6 * n + 12 * l * h * s) * tokens / row["gpus"] / (products * peak) * 100 ==
          Approx(row["mfu"]).margin(0.06));
  }
}

TEST_CASE("BLOOM") {
  int did_not_fit = 0;
  for (const Row& row : rows_of("bloom", 104)) {
    CAPTURE(row.model(), row["heads"], row["tensor"], row["micro_batch"]);
    CHECK(row["gpus"] == row["data"] * row["tensor"] * row["pipeline"]);
    CHECK(std::fmod(row["global_batch"], row["data"] * row["micro_batch"]) == 0);
    CHECK(parameters(row) == Approx(named_parameters(row)).epsilon(0.015));
    if (row.json.contains("fits")) {
      CHECK((++did_not_fit && !row.json.contains("seconds")));
      continue;
    }
    CHECK(recomputing_flops(row) / row["seconds"] / row["gpus"] / 1e12 ==
          Approx(row["tflops_per_gpu"]).epsilon(0.02));
  }
  CHECK(did_not_fit == 6);
}

TEST_CASE("vTrain") {
  for (const auto& [name, count] :
       {std::pair("vtrain_multi", 55), std::pair("vtrain_single", 180)}) {
    for (const Row& row : rows_of(name, static_cast<size_t>(count))) {
      CAPTURE(name, row.model(), row["tensor"], row["pipeline"]);
      CHECK(row["gpus"] == row["data"] * row["tensor"] * row["pipeline"]);
      CHECK(row["global_batch"] == row["data"] * row["micro_batch"] * row["micro_batches"]);
      CHECK(std::fmod(row["vocab"], 128 * row["tensor"]) == 0);
      CHECK(row["vocab"] - 50257 < 128 * row["tensor"]);
      if (row.model().back() == 'B') {
        CHECK(parameters(row) == Approx(named_parameters(row)).epsilon(0.012));
      }
    }
  }
}

TEST_CASE("llm.c") {
  for (const Row& row : rows_of("llmc_scripts", 4)) {
    CAPTURE(row.model());
    const double l = row["layers"], h = row["hidden"], s = row["sequence_length"];
    const double n = 12 * l * h * h + (row["vocab"] + s) * h;
    CHECK(n == Approx(named_parameters(row)).epsilon(0.02));
    const double flops = (6 * n + 6 * l * h * s) * row["tokens_per_step"];
    const double peak = row.json.at("device") == "h100" ? 989e12 : 312e12;
    const double mfu = flops / (row["milliseconds"] / 1e3 * row["gpus"] * peak);
    CHECK(mfu > 0.45);
    CHECK(mfu < 0.62);
  }
  double last = 0;
  for (const Row& row : rows_of("llmc_scaling", 7)) {
    CHECK(row["tokens_per_second"] > last);
    last = row["tokens_per_second"];
  }
}

// A program has at most three constants for a GPU that were chosen with published steps.
TEST_CASE("What is fitted is little, on rows that say so") {
  std::map<std::string, size_t> rows;  // by program
  for (const char* set :
       {"recompute_2022", "playbook_2025", "mpt_fsdp", "bloom", "vtrain_single"}) {
    const Json file = read_json_object(concat("tests/published/", set, ".json"), 1'000'000);
    for (const Json& row : file.at("rows")) {
      if (row.contains("fitted")) ++rows[row.at("fitted").get<std::string>()];
    }
  }
  for (const std::string& program : known_programs()) {
    CAPTURE(program);
    const Json json =
        read_json_object(concat("common/cluster/programs/", program, ".json"), 1'000'000);
    const Json devices = json.value("devices", Json::object());
    size_t most = 0;
    for (const Json& values : devices) {
      most =
          std::max(most, static_cast<size_t>(std::ranges::count_if(values, [](const Json& value) {
                     return value.at("source").get<std::string>().starts_with("fitted");
                   })));
    }
    CHECK(most <= 3);
    CHECK((most > 0) == rows.contains(program));
    CHECK(rows[program] >= most);
  }
}

}  // namespace
}  // namespace ladder
