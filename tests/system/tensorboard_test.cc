// What whole runs write for TensorBoard.
#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/event_records.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

const Flags kRun = {"--model",          "nano", "--threads", "1", "--steps", "4",
                    "--evaluate-every", "2",    "--sample",  "8", "--dump",  "dump"};
const Flags kBoard = {"--tensorboard", "board", "--metrics", "metrics"};

// The events of the only event file of a run, without the first two, which are about the file.
std::vector<ReadEvent> events_of_run(const Scratch& folder) {
  std::vector<std::string> files;
  for (const std::string& file : folder.files()) {
    if (file.starts_with("board/")) files.push_back(file);
  }
  REQUIRE(files.size() == 1);
  std::vector<ReadEvent> events = events_of(folder.path() / files[0]);
  REQUIRE(events.size() == 3 + 6);  // of four steps and of two samples
  const std::string about = events[2].texts.at("run");
  for (const std::string line :
       {"  model    nano: 2 layers", "--steps 4\n", "--sample 8\n", "--seed 1 (default)\n"}) {
    CHECK_THAT(about, ContainsSubstring("\n    " + line));
  }
  events.erase(events.begin(), events.begin() + 3);
  return events;
}

std::vector<Json> metrics_of(const Scratch& folder) {
  std::istringstream in(read_text(folder.path() / "metrics"));
  std::vector<Json> metrics;
  for (std::string line; std::getline(in, line);) metrics.push_back(Json::parse(line));
  return metrics;
}

// Calls visit(scalars, metrics) for each step, after checking that the event's scalars are what the
// step's metrics have.
template <class Visit>
void check_scalars(const Scratch& folder, const std::vector<ReadEvent>& events, Visit visit) {
  const std::vector<Json> metrics = metrics_of(folder);
  for (const ReadEvent& event : events) {
    if (!event.texts.empty()) continue;
    const Json& line = metrics.at(event.step - 1);
    const auto check = [&](const std::string& tag, const Json& value) {
      CAPTURE(event.step, tag);
      CHECK(event.scalars.at(tag) == static_cast<float>(value.get<double>()));
    };
    check("loss/train", line.at("loss"));
    check("optimizer/grad_norm", line.at("grad_norm"));
    check("optimizer/learning_rate", line.at("learning_rate"));
    check("speed/tokens_per_second", line.at("tokens_per_second"));
    // nano has 32 tokens in a sequence.
    check("speed/samples_per_second", line.at("tokens_per_second").get<double>() / 32);
    for (const auto& [category, bytes] : line.at("peak_device_bytes").items()) {
      check("memory_MiB/" + category, bytes.template get<double>() / (1 << 20));
    }
    CHECK(event.scalars.contains("loss/validation") == line.contains("validation_loss"));
    if (line.contains("validation_loss")) check("loss/validation", line["validation_loss"]);
    CHECK(event.scalars.begin()->first == "loss/train");  // on which TensorBoard opens
    visit(event.scalars, line);
  }
}

// Fails the test unless the samples are those after evaluations, the last as it was printed.
void check_samples(const std::vector<ReadEvent>& events, const std::string& out) {
  std::map<uint64_t, std::string> samples;
  for (const ReadEvent& event : events) {
    if (!event.texts.empty()) samples[event.step] = event.texts.at("sample");
  }
  REQUIRE(samples.size() == 2);
  CHECK(samples.at(2).starts_with("    "));
  std::string printed;  // without the indentation, which Markdown wants
  for (size_t at = 0; at < samples.at(4).size(); ++at) {
    if (at == 0 || samples.at(4)[at - 1] == '\n') at += 4;
    if (at < samples.at(4).size()) printed += samples.at(4)[at];
  }
  CHECK(sample_of(out).starts_with(printed));
  CHECK(printed.size() >= 8);
  CHECK(out.find("sample:") == out.rfind("sample:"));
}

TEST_CASE("01: a board has the metrics of every step and the samples, and changes no bit") {
  const Scratch folder, without;
  require_success(run_single_gpu(kRun, {.folder = without.path()}));
  const ProcessResult result = run_single_gpu(kRun + kBoard, {.folder = folder.path()});
  require_success(result);
  const std::string last = "dump/step_000004.safetensors";
  CHECK(read_text(folder.path() / last) == read_text(without.path() / last));
  const std::vector<ReadEvent> events = events_of_run(folder);
  check_samples(events, result.out);
  check_scalars(folder, events, [](const auto& scalars, const Json&) {
    CHECK(scalars.at("speed/exposed_ms") == 0);
    CHECK(scalars.at("speed/device_busy") == 1);
  });
  const std::vector<std::string> files = folder.files();
  const ProcessResult again = run_single_gpu(kRun + kBoard, {.folder = folder.path()});
  check_user_error(again, {"--tensorboard board", "event file", "earlier run"});
  CHECK(folder.files() == files);
  CHECK(events_of_run(folder).size() == events.size());
}

TEST_CASE("05: a board of rank 0, which waits for its peer, while ranks gather for samples") {
  const Scratch folder;
  const ProcessResult result =
      run_ranks(2, Flags{lesson_path("05_zero3")} + kRun + kBoard, {.folder = folder.path()});
  require_success(result);
  const std::vector<ReadEvent> events = events_of_run(folder);
  check_samples(events, result.out);
  check_scalars(folder, events, [](const auto& scalars, const Json& line) {
    const double exposed = scalars.at("speed/exposed_ms");
    CHECK(exposed > 0);
    // fp32 rounds at 2^-24.
    const double busy = 1 - exposed / line.at("step_ms").get<double>();
    CHECK(std::abs(scalars.at("speed/device_busy") - busy) <= 0x1p-23);
    // The metrics have the dump's and the evaluation's communication, too.
    double all = 0;
    for (const auto& [name, traffic] : line.at("collectives").items()) {
      all += traffic.at("exposed_ms").template get<double>();
    }
    CHECK(exposed < all);
  });
  // The table at the end has the mean of the steps: what was waited for, and the rest.
  const std::vector<Json> metrics = metrics_of(folder);
  for (const std::string name : {"gradient reduce_scatter", "parameter all_gather"}) {
    double busy = 0, exposed = 0;
    for (const Json& line : metrics) {
      const Json& traffic =
          line.at("collectives").at(std::regex_replace(name, std::regex(" "), "."));
      busy += traffic.at("busy_ms").get<double>() / static_cast<double>(metrics.size());
      exposed += traffic.at("exposed_ms").get<double>() / static_cast<double>(metrics.size());
    }
    const std::regex row(name + R"( +[0-9,]+ +[0-9,]+ +([0-9.]+) +([0-9.]+)\n)");
    std::smatch found;
    REQUIRE(std::regex_search(result.out, found, row));
    CAPTURE(name, busy, exposed, found[0]);
    CHECK(std::abs(std::stod(found[1]) - exposed) <= 0.006);
    CHECK(std::abs(std::stod(found[2]) - std::max(0.0, busy - exposed)) <= 0.006);
  }
}

}  // namespace
}  // namespace ladder
