#include "tests/system/split_runs.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>
#include <utility>

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "tests/catch.h"
#include "tests/common/train/perfetto.h"
#include "tests/sample.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

constexpr ModelSize kFourLayers = {
    .layers = 4, .heads = 4, .hidden = 32, .sequence_length = 32, .vocab = 256};

// "1,234" of 1234.5.
std::string with_commas(double number) {
  std::string digits = std::to_string(static_cast<uint64_t>(number));
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::vector<Flags> ways_to_communicate(size_t num_ranks) {
  std::vector<Flags> ways = {{}, {"--no-shared-memory"}, {"--check-collectives"}};
  const std::string device = device_name();
  if (device.empty()) return ways;
  ways.push_back({"--device", device, "--communication", "staged"});
  // A GPU for each rank; every rank has an emulator of its own.
  if (device == "emulator" || num_devices(DeviceType::cuda) >= num_ranks) {
    ways.push_back({"--device", device});
  }
  return ways;
}

}  // namespace

const Flags kSplitRun = {"--model",
                         "nano",
                         "--layers",
                         "4",
                         "--heads",
                         "4",
                         "--dtype",
                         "fp64",
                         "--steps",
                         "2",
                         "--global-batch-size",
                         "8",
                         "--sample",
                         "60",
                         "--evaluate-every",
                         "1",
                         "--threads",
                         "1",
                         "--evaluate-batches",
                         "1"};

void check_ways_to_communicate(size_t num_ranks, const Flags& argv) {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const ProcessResult single = run_single_gpu(kSplitRun + Flags{"--dump", "one"}, options);
  require_success(single);
  // Not the same ways in every lesson.
  std::string words = argv[0].substr(argv[0].rfind('/') + 1);
  for (size_t i = 1; i < argv.size(); ++i) words += argv[i];
  testing::Sample sample(2, std::hash<std::string>()(words));
  for (const Flags& way : ways_to_communicate(num_ranks)) {
    if (!sample.takes()) continue;
    const ProcessResult result =
        run_ranks(num_ranks, argv + kSplitRun + way + Flags{"--dump", "many"}, options);
    CAPTURE(way, result.out);
    require_success(result);
    CHECK_THAT(result.out, !ContainsSubstring("differs"));
    for (const char* step : {"step 1", "step 2"}) {
      CHECK(validation_loss(result.out, step) == validation_loss(single.out, step));
    }
    CHECK(sample_of(result.out) == sample_of(single.out));
    check_equal_dumps("one", "many", "1e-11", options);
  }
}

StepTraffic traffic_of_run_from_files(size_t num_ranks, const std::string& program,
                                      const std::map<std::string, std::string>& more) {
  const Scratch folder;
  folder.write("zero.safetensors", zero_weights(kFourLayers).text());
  std::string config =
      "init = zero.safetensors\nmetrics = metrics\nno-shared-memory = true\n"
      "peak-flops = 1e9\n";
  for (size_t i = 0; i < kSplitRun.size(); i += 2) {
    config += kSplitRun[i].substr(2) + " = " + kSplitRun[i + 1] + "\n";
  }
  for (const auto& [name, value] : more) config += concat(name, " = ", value, "\n");
  folder.write("flags.ini", config);
  const ProcessResult result = run_ranks(
      num_ranks, {program, "--config", "flags.ini", "--sample", "8"}, {.folder = folder.path()});
  CAPTURE(config, result.out);
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("step 1/2  loss 5.5452") &&
                             ContainsSubstring("\nsample:\n") &&
                             ContainsSubstring("messages only") && !ContainsSubstring("differs"));
  std::istringstream lines(read_text(folder.path() / "metrics"));
  std::vector<StepTraffic> steps;
  for (std::string line; std::getline(lines, line);) {
    const Json metrics = Json::parse(line);
    CHECK(metrics.contains("validation_loss"));
    // A product and a quotient of doubles, each rounded once or twice.
    const double rate = metrics.at("tokens_per_second"),
                 peak = 1e9 * static_cast<double>(num_ranks);
    // All ranks together: 8 sequences of 32 tokens.
    CHECK(rate * metrics.at("step_ms").get<double>() == Approx(1e3 * 8 * 32).epsilon(8 * 0x1p-53));
    CHECK_THAT(result.out, ContainsSubstring(concat("  ", with_commas(rate), " tokens/s")));
    CHECK(metrics.at("mfu").get<double>() ==
          Approx(rate * flops_per_token(kFourLayers) / peak).epsilon(8 * 0x1p-53));
    StepTraffic& step = steps.emplace_back();
    for (const auto& [key, traffic] : metrics.at("collectives").items()) {
      if (key.find("control.") != std::string::npos) continue;
      step[key] = {traffic.at("calls"), traffic.at("payload_bytes")};
    }
  }
  REQUIRE(steps.size() == 2);
  CHECK(steps[0] == steps[1]);
  return steps[0];
}

std::vector<std::multiset<std::string>> spans_of_trace(const std::string& file, size_t num_ranks) {
  std::vector<std::multiset<std::string>> names(num_ranks);
  const Json trace = Json::parse(file);
  CHECK(testing::perfetto_faults(trace.at("traceEvents")) == std::vector<std::string>());
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") names.at(event.at("pid")).insert(event.at("name"));
  }
  return names;
}

void check_well_formed(const std::string& text) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([A-Za-z]+)((?:\s+[A-Za-z:-]+="[^"<>]*")*)\s*(/?)>)");
  std::string rest;  // what is no tag
  size_t end = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), tag); at != std::sregex_iterator(); ++at) {
    rest += text.substr(end, static_cast<size_t>(at->position()) - end);
    end = static_cast<size_t>(at->position() + at->length());
    const std::string name = (*at)[2];
    if ((*at)[1].length() > 0) {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == name);
      open.pop_back();
    } else if ((*at)[4].length() == 0) {
      open.push_back(name);
    }
  }
  CHECK(end > 0);
  CHECK(open.empty());
  CHECK((rest + text.substr(end)).find_first_of("<>") == std::string::npos);
}

}  // namespace ladder
