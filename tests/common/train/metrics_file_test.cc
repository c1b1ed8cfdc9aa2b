// The file of --metrics.
#include "common/train/report/metrics_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

TEST_CASE("metrics: one JSON object a step, in the file as soon as the step is done") {
  const TestFolder folder;
  const std::string path = folder / "metrics.jsonl";
  Memory memory(DeviceType::cpu, "device", 0);
  { const Tensor gone(memory, Category::activations, DType::fp32, {100}); }
  const Tensor kept(memory, Category::parameters, DType::fp64, {10});
  MetricsFile file(path);
  const StepResult result = {.loss = 0.1 + 0.2, .grad_norm = 1e-300, .learning_rate = 1e-3};
  file.write({1, result, 12.5, 2048, std::nullopt, std::nullopt}, memory);
  CHECK(lines_of(path).size() == 1);
  CHECK(folder.list() == std::vector<std::string>{"metrics.jsonl"});
  file.write({2, result, 12.5, 2048, 0.25, 3.5}, memory);
  file.finish();
  CHECK(folder.list() == std::vector<std::string>{"metrics.jsonl"});

  const std::vector<std::string> lines = lines_of(path);
  REQUIRE(lines.size() == 2);
  const auto first = nlohmann::ordered_json::parse(lines[0]);
  const auto second = nlohmann::ordered_json::parse(lines[1]);
  CHECK(keys_of(first) == std::vector<std::string>{"step", "loss", "grad_norm", "learning_rate",
                                                   "step_ms", "tokens_per_second",
                                                   "peak_device_bytes", "collectives"});
  CHECK(keys_of(second) == std::vector<std::string>{"step", "loss", "grad_norm", "learning_rate",
                                                    "step_ms", "tokens_per_second", "mfu",
                                                    "validation_loss", "peak_device_bytes",
                                                    "collectives"});
  CHECK(first["step"] == 1);
  CHECK(first["loss"].get<double>() == 0.1 + 0.2);  // to the last bit
  CHECK(first["grad_norm"].get<double>() == 1e-300);
  CHECK(first["learning_rate"] == 1e-3);
  CHECK(first["step_ms"] == 12.5);
  CHECK(first["tokens_per_second"] == 2048);
  CHECK(second["step"] == 2);
  CHECK(second["mfu"] == 0.25);
  CHECK(second["validation_loss"] == 3.5);
  CHECK(keys_of(first["peak_device_bytes"]) ==
        std::vector<std::string>{"parameters", "gradients", "optimizer", "activations",
                                 "communication", "workspace"});
  CHECK(first["peak_device_bytes"]["parameters"] == 80);
  CHECK(first["peak_device_bytes"]["activations"] == 400);
  CHECK(first["peak_device_bytes"]["gradients"] == 0);
  CHECK(first["collectives"].empty());
}

TEST_CASE("metrics: what each step has communicated, by axis") {
  const TestFolder folder;
  const Memory memory(DeviceType::cpu, "device", 0);
  const TrafficKey world = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey tensor = {Purpose::gradient, Collective::all_reduce, Axis::tensor};
  MetricsFile file(folder / "metrics");
  file.write({1, {}, 1, 1, std::nullopt, std::nullopt}, memory,
             {{world, {2, 100, 0, 0.25, 0.125}}});
  file.write({2, {}, 1, 1, std::nullopt, std::nullopt}, memory,
             {{world, {5, 250, 0, 0.75, 0.25}}, {tensor, {1, 8}}});
  file.finish();
  const std::vector<std::string> lines = lines_of(folder / "metrics");
  REQUIRE(lines.size() == 2);
  const auto first = nlohmann::ordered_json::parse(lines[0])["collectives"];
  const auto second = nlohmann::ordered_json::parse(lines[1])["collectives"];
  CHECK(keys_of(first) == std::vector<std::string>{"gradient.all_reduce"});
  CHECK(keys_of(second) ==
        std::vector<std::string>{"gradient.all_reduce", "tensor.gradient.all_reduce"});
  const nlohmann::ordered_json added = {
      {"calls", 3}, {"payload_bytes", 150}, {"busy_ms", 500.0}, {"exposed_ms", 125.0}};
  CHECK(second["gradient.all_reduce"] == added);
  CHECK(first["gradient.all_reduce"]["payload_bytes"] == 100);
  CHECK(second["tensor.gradient.all_reduce"]["payload_bytes"] == 8);
}

TEST_CASE("metrics of a run without a step do not replace those of one that had some") {
  const TestFolder folder;
  const std::string path = folder.write("metrics", "good");
  Memory memory(DeviceType::cpu, "device", 0);
  { const MetricsFile file(path); }
  CHECK(lines_of(path) == std::vector<std::string>{"good"});
  {
    MetricsFile file(path);
    file.write({1, {}, 1, 1, std::nullopt, std::nullopt}, memory);
  }
  CHECK(lines_of(path).size() == 1);
  CHECK(lines_of(path)[0].starts_with("{\"step\":1,"));
  const std::string missing = folder / "no/such/metrics";
  CHECK_THROWS_AS(MetricsFile(missing), UserError);
  CHECK_THROWS_WITH(MetricsFile(missing), ContainsSubstring(missing));
  CHECK_THROWS_AS(MetricsFile(folder.path()), UserError);
}

// Writes the metrics of steps `first` to `last` of a run that was resumed after `resumed_step`.
void write_steps(const std::string& path, int64_t resumed_step, int64_t first, int64_t last,
                 double loss, const std::string& run = "") {
  const Memory memory(DeviceType::cpu, "device", 0);
  MetricsFile file(path, resumed_step, run);
  for (int64_t step = first; step <= last; ++step) {
    file.write({step, {.loss = loss}, 1, 1, std::nullopt, std::nullopt}, memory);
  }
  file.finish();
}

// Returns "step:loss" of each line.
std::vector<std::string> points_of(const std::string& path) {
  std::vector<std::string> points;
  for (const std::string& line : lines_of(path)) {
    const auto object = nlohmann::ordered_json::parse(line);
    points.push_back(concat(object["step"], ":", object["loss"]));
  }
  return points;
}

TEST_CASE(
    "metrics of a resumed run follow those up to its checkpoint, and no step is there twice") {
  const TestFolder folder;
  const std::string path = folder / "metrics";
  write_steps(path, 0, 1, 5, 0.5);
  { const MetricsFile file(path, 3); }  // a run without a step
  CHECK(lines_of(path).size() == 5);
  write_steps(path, 3, 4, 6, 0.25);
  CHECK(points_of(path) ==
        std::vector<std::string>{"1:0.5", "2:0.5", "3:0.5", "4:0.25", "5:0.25", "6:0.25"});
  write_steps(path, 8, 9, 9, 0.125);  // from a checkpoint of another machine: a gap
  CHECK(points_of(path).size() == 7);
  write_steps(path, 0, 1, 1, 1.5);  // a new run
  CHECK(points_of(path) == std::vector<std::string>{"1:1.5"});
  write_steps(folder / "other", 3, 4, 4, 0.25);
  CHECK(points_of(folder / "other") == std::vector<std::string>{"4:0.25"});
}

TEST_CASE("a resumed run adds to metrics with its mark, and without one to any") {
  const TestFolder folder;
  const std::string path = folder / "metrics";
  write_steps(path, 0, 1, 3, 0.5, "a1");
  CHECK_THROWS_WITH(MetricsFile(path, 1, "b2"), StartsWith(path + ": has the curves of another"));
  CHECK(lines_of(path).size() == 3);
  write_steps(path, 2, 3, 3, 0.25, "a1");
  write_steps(path, 2, 3, 3, 0.125);  // the checkpoint is of an older version
  CHECK(points_of(path) == std::vector<std::string>{"1:0.5", "2:0.5", "3:0.125"});
  write_steps(folder.write("empty", ""), 2, 3, 3, 0.5, "b2");
}

TEST_CASE("a resumed run drops the line that a killed one could not finish") {
  const TestFolder folder;
  const std::string path = folder.write("metrics", "{\"step\":1,\"loss\":2.0}\n{\"step\":2,\"lo");
  write_steps(path, 2, 3, 3, 0.5);
  CHECK(points_of(path) == std::vector<std::string>{"1:2.0", "3:0.5"});
}

TEST_CASE("a resumed run refuses a file that has other lines, and leaves it") {
  const TestFolder folder;
  const auto [text, line] =
      GENERATE(table<std::string, int>({{"In the beginning\n", 1},
                                        {"{\"step\":1}\n{\"step\":2\n", 2},
                                        {"{\"step\":1}\n\n", 2},
                                        {"{\"step\":1}\n{\"loss\":2}\n", 2},
                                        {"{\"step\":1}\n{\"step\":\"2\"}\n", 2},
                                        {"{\"step\":1}\n[2]\n", 2},
                                        {"{\"step\":1}\n{\"step\":2.5}\n", 2},
                                        {"{\"step\":1}\n{\"step\":2}\n{\"step\":2}\n", 3},
                                        {"{\"step\":0}\n", 1}}));
  CAPTURE(text);
  const std::string path = folder.write("metrics", text);
  CHECK_THROWS_AS(MetricsFile(path, 9), UserError);
  CHECK_THROWS_WITH(MetricsFile(path, 9),
                    concat(path, ": line ", line, " is not the metrics of a step after step ",
                           line - 1, ", so this run cannot be added; name another file"));
  CHECK(text_of(path) == text);
  CHECK(folder.list() == std::vector<std::string>{"metrics"});
  CHECK_NOTHROW(MetricsFile(path));  // a new run replaces whatever is there
}

TEST_CASE("a resumed run adds its lines to a stream") {
  MetricsFile file("/dev/null", 3);
  const Memory memory(DeviceType::cpu, "device", 0);
  CHECK_NOTHROW(file.write({4, {}, 1, 1, std::nullopt, std::nullopt}, memory));
}

}  // namespace
}  // namespace ladder
