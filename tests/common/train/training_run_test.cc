// The training loop: what it asks of a trainer when, and how it ends.
#include "common/train/run/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "common/train/report/report.h"
#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tests/common/io/event_records.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using testing::for_random_cases;

// Standard output while it exists.
class Output {
 public:
  Output() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Output() { std::cout.rdbuf(before_); }
  Output(const Output&) = delete;
  std::string text() const { return text_.str(); }
  // Lines that begin so.
  size_t num_lines(const std::string& begin) const {
    std::istringstream in(text());
    size_t count = 0;
    for (std::string line; std::getline(in, line);) count += line.starts_with(begin);
    return count;
  }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

// A run of nano whose trainer does nothing but write down what it is asked to do: "i" to give
// parameters their first values, "s" a step, "e3" an evaluation of three batches, "c" the check of
// replicas, "r" the report.
struct Recorder {
  explicit Recorder(int64_t num_steps) {
    config.model = find_preset("nano").config;
    config.micro_batch_size = config.global_batch_size;
    config.optimizer.num_steps = num_steps;
    config.evaluate_every = 2;
    config.evaluate_batches = 3;
  }
  class Recording;
  // To the end of the run, or its error.
  void train();
  // Whether operations on the device are refused.
  static bool has_given_up(Communicator& ranks) {
    ranks.set_observer({});  // that of the run is gone
    Stream stream(ranks.device());
    Memory memory(ranks.device(), "device", 0);
    const Tensor number(memory, Category::communication, DType::fp64, {1});
    try {
      ranks.all_reduce(stream, number, {}).wait(stream);
    } catch (const Error&) {
      return true;
    }
    return false;
  }

  RunConfig config;
  std::vector<StepResult> results;  // of each step; empty: all good
  // In which steps, and in the evaluations after which, no token counts.
  std::set<int64_t> empty_steps, empty_evaluations;
  double validation_loss = 5.5;
  size_t calls_of_evaluation = 1;
  bool replicas_differ = false;
  bool refuses = false;  // when the trainer is made
  DeviceType device = DeviceType::cpu;
  std::function<void()> before_step_ends;

  bool gave_up = false;

  std::string asked;
  size_t step = 0;
  int64_t done = 0;
  TrafficEntries communicated;
};

class Recorder::Recording final : public Trainer {
 public:
  Recording(Recorder& record, const TrainerContext& context, Communicator& ranks)
      : record_(record),
        ranks_(ranks),
        counted_(context.counted),
        parameters_(layout_.num_elements()) {}
  ModelState& state() override { fail("it has none"); }
  void initialize() override { record_.asked += "i"; }
  std::vector<NamedSlice> stored() override {
    return stored_slices([this](std::string_view) {
      return owned_slices(layout_, 0,
                          {parameters_.data(), DType::fp32, DeviceType::cpu, {parameters_.size()}});
    });
  }
  void restore(CheckpointReader&) override {}
  std::vector<Scalar> scalars() override {
    return {{"step", &record_.done}, {"updates", &record_.done}};
  }
  StepResult step() override {
    communicate();
    if (record_.before_step_ends) record_.before_step_ends();
    record_.asked += "s";
    ++record_.done;
    if (counted_ != nullptr) counted_->none = record_.empty_steps.contains(record_.done);
    return record_.results.empty() ? StepResult{.loss = 5, .grad_norm = 2}
                                   : record_.results.at(record_.step++);
  }
  double evaluate(size_t num_batches) override {
    for (size_t i = 0; i < record_.calls_of_evaluation; ++i) communicate();
    record_.asked += concat("e", num_batches);
    if (counted_ != nullptr) counted_->none = record_.empty_evaluations.contains(record_.done);
    return record_.validation_loss;
  }
  void check_replicas() override {
    record_.asked += "c";
    if (record_.replicas_differ) throw Error("they differ");
  }
  std::string report() override {
    record_.asked += "r";
    return "what the trainer reports\n";
  }

 private:
  void communicate() {
    Stream host(DeviceType::cpu);
    double number = 1;
    ranks_
        .all_reduce(host, TensorView(&number, DType::fp64, DeviceType::cpu, {1}),
                    {.purpose = Purpose::gradient})
        .wait(host);
  }

  Recorder& record_;
  Communicator& ranks_;
  CountedTokens* counted_;
  Layout layout_{record_.config.model, 1};
  std::vector<float> parameters_;
};

void Recorder::train() {
  Job job;
  ConnectOptions options;
  options.device = device;
  job.connect(options);
  Communicator& ranks = job.communicator();
  Program program;
  program.lesson = {"00_test", "Tests."};
  program.construct = [&](const TrainerContext& context) {
    if (refuses) throw UserError("--flag: not in this lesson");
    return std::make_unique<Recording>(*this, context, ranks);
  };
  try {
    TrainingRun(program, config, {}, job, {}).train();
  } catch (...) {
    gave_up = has_given_up(ranks);
    throw;
  }
  communicated = ranks.ledger().entries();
}

TEST_CASE("evaluations come every so many steps and after the last, the replicas' check once") {
  const Output out;
  Recorder run(5);
  run.train();
  CHECK(run.asked == "isse3sse3se3cr");
  CHECK(out.num_lines("step 2  validation loss 5.5000") == 1);
  CHECK(out.num_lines("step 5  validation loss 5.5000") == 1);
  CHECK(out.num_lines("step ") == 5 + 3);
  CHECK_THAT(out.text(), ContainsSubstring("what the trainer reports"));
}

TEST_CASE("steps and evaluations in which no token counts say so, and are no loss of 0 anywhere") {
  constexpr int64_t kSteps = 8;
  for_random_cases(5, [](size_t seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const Output out;
    const TestFolder folder;
    Recorder run(kSteps);
    run.config.model.objective = Objective::masked;
    run.config.evaluate_every = 1;
    run.config.metrics = folder / "metrics";
    run.config.tensorboard = folder / "board";
    for (int64_t step = 1; step <= kSteps; ++step) {
      if (random() % 2 == 0) run.empty_steps.insert(step);
      if (random() % 2 == 0) run.empty_evaluations.insert(step);
    }
    run.train();
    const std::vector<ReadEvent> events = events_of(folder / "board/" + folder.list("board").at(0));
    std::istringstream metrics(text_of(folder / "metrics"));
    for (int64_t step = 1; step <= kSteps; ++step) {
      const bool has_loss = !run.empty_steps.contains(step);
      const bool has_validation = !run.empty_evaluations.contains(step);
      CHECK(out.num_lines(concat("step ", step, "/8  loss",
                                 has_loss ? " 5.0000" : ": no token counts")) == 1);
      CHECK(out.num_lines(concat("step ", step, "  validation loss",
                                 has_validation ? " 5.5000" : ": no token counts")) == 1);
      std::string line;
      std::getline(metrics, line);
      const auto metric = nlohmann::json::parse(line);
      CHECK(metric.at("loss").is_null() != has_loss);
      CHECK(metric.contains("validation_loss") == has_validation);
      const auto& scalars = events.at(2 + static_cast<size_t>(step)).scalars;
      CHECK(scalars.contains("loss/train") == has_loss);
      CHECK(scalars.contains("loss/validation") == has_validation);
    }
  });
}

TEST_CASE("what an evaluation communicates is control traffic, what steps do is not") {
  const Output out;
  Recorder run(5);
  run.train();
  CHECK(run.communicated.at({Purpose::gradient, Collective::all_reduce}).calls == 5);
  CHECK(run.communicated.at({Purpose::control, Collective::all_reduce}).calls == 3);
}

TEST_CASE("a board shows what the step itself waited for, without its evaluation") {
  const Output out;
  const TestFolder folder;
  Recorder run(3);
  run.config.tensorboard = folder.path();
  run.config.flags = {{"--steps", {"3", false}}, {"--seed", {"1", true}}};
  run.calls_of_evaluation = 10'000;  // which take far longer than the one of a step
  run.train();
  const std::vector<ReadEvent> events = events_of(folder / folder.list().at(0));
  REQUIRE(events.size() == 3 + 3);
  CHECK_THAT(events[2].texts.at("run"), ContainsSubstring("\n      model    tiny: 2 layers") &&
                                            ContainsSubstring("\n    --steps 3\n") &&
                                            ContainsSubstring("\n    --seed 1 (default)\n"));
  for (size_t step = 1; step <= 3; ++step) {
    CAPTURE(step);
    const std::map<std::string, float>& scalars = events[2 + step].scalars;
    CHECK(scalars.at("speed/exposed_ms") > 0);
    CHECK(scalars.at("speed/device_busy") > 0);  // it waited for less time than the step took
    CHECK(scalars.at("speed/device_busy") < 1);
    CHECK(scalars.contains("loss/validation") == (step > 1));
  }
}

// nano has 32 tokens in a sequence; a step has 16 of them.
TEST_CASE("a resumed run says how fast it goes and how long the steps left will take") {
  const TestFolder folder;
  Recorder first(99);
  first.config.evaluate_every = 0;
  first.config.checkpoint.path = folder / "c";
  {
    const Output out;
    first.train();
  }
  Recorder run(2000);
  run.config.evaluate_every = 0;
  run.config.checkpoint = first.config.checkpoint;
  run.config.checkpoint.resume = true;
  run.config.metrics = folder / "metrics";
  run.config.peak_flops = 1e9;
  run.before_step_ends = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  run.results = {{.loss = 5, .grad_norm = 2}, {.loss = std::nan("")}};
  const Output out;
  const Time begin = Clock::now();
  CHECK_THROWS_WITH(run.train(), ContainsSubstring("step 101: "));
  const double most = seconds_since(begin);
  const auto line = nlohmann::json::parse(text_of(folder / "metrics"));  // of step 100
  CHECK(line.at("step") == 100);
  CHECK(line.at("step_ms") >= 20);
  CHECK(line.at("step_ms") <= 1e3 * most);
  const double rate = line.at("tokens_per_second");
  CHECK(rate * line.at("step_ms").get<double>() == Approx(1e3 * 16 * 32));
  CHECK(line.at("mfu").get<double>() ==
        Approx(rate * describe(run.config.model).flops_per_token() / 1e9));
  const std::regex said(
      R"(step  100/2000 .*  ([0-9,]+) tokens/s  ([0-9]+):([0-9]+):?([0-9]*) left)");
  const std::string text = out.text();
  std::smatch found;
  REQUIRE(std::regex_search(text, found, said));
  CHECK(found[1] == with_commas(static_cast<uint64_t>(rate)));
  double seconds = 60 * std::stod(found[2]) + std::stod(found[3]);
  if (found[4].length() > 0) seconds = 60 * seconds + std::stod(found[4]);
  CHECK(seconds >= 1900 * 0.02 - 1);
  CHECK(seconds <= 1900 * most + 1);
}

// The values of these flags, of which each changes how training goes on.
struct Changeable {
  const char* flag;
  void (*change)(RunConfig&);
};
constexpr Changeable kChangeable[] = {
    {"--global-batch-size", [](RunConfig& config) { config.global_batch_size *= 2; }},
    {"--seed", [](RunConfig& config) { config.seed += 1; }},
    {"--steps", [](RunConfig& config) { config.optimizer.num_steps += 1; }},
    {"--warmup-steps", [](RunConfig& config) { config.optimizer.warmup_steps += 1; }},
    {"--learning-rate", [](RunConfig& config) { config.optimizer.learning_rate *= 2; }},
    {"--min-learning-rate", [](RunConfig& config) { config.optimizer.min_learning_rate += 1e-9; }},
    {"--weight-decay", [](RunConfig& config) { config.optimizer.weight_decay += 0.5; }},
    {"--beta1", [](RunConfig& config) { config.optimizer.beta1 /= 2; }},
    {"--beta2", [](RunConfig& config) { config.optimizer.beta2 /= 2; }},
    {"--epsilon", [](RunConfig& config) { config.optimizer.epsilon *= 2; }},
    {"--clip-norm", [](RunConfig& config) { config.optimizer.clip_norm += 1; }},
    {"--dtype", [](RunConfig& config) { config.dtype = DType::fp64; }},
    {"--lesson-flag", [](RunConfig& config) { config.flags["--lesson-flag"].value = "2"; }}};

// The rows of the flags of a program to which nothing is given.
std::map<std::string, FlagValue> flags_by_default() {
  const char* const argv[] = {"00_test"};
  Options options({"00_test", "Tests flags."}, [](FlagTable&) {});
  options.parse(1, argv);
  return options.resolve({}).flags;
}

TEST_CASE("a resumed run names the flags that have changed, and no others") {
  for_random_cases(12, [](size_t seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const Output out;
    const TestFolder folder;
    Recorder first(2);
    first.config.evaluate_every = 0;
    first.config.checkpoint.path = folder / "c";
    first.config.flags = flags_by_default();
    first.config.flags["--lesson-flag"] = {"1", false};
    first.train();
    Recorder run(3);
    run.config = first.config;
    run.config.checkpoint.resume = true;
    run.config.optimizer.num_steps = 3;
    std::set<std::string> expected = {"--steps"}, changed;
    for (const auto& [flag, change] : kChangeable) {
      if (random() % 3 != 0) continue;
      change(run.config);
      expected.insert(flag);
    }
    run.train();
    const std::string text = out.text();
    const std::regex line(R"(  changed  (\S+) \S+, was \S+.*\n)");
    for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it) {
      changed.insert((*it)[1]);
    }
    CHECK(changed == expected);
  });
}

// A checkpoint is published after all ranks have written, and none writes before there is a folder.
TEST_CASE("each checkpoint has two barriers") {
  for (const bool async : {false, true}) {
    const Output out;
    const TestFolder folder;
    Recorder run(6);
    run.config.evaluate_every = 0;
    run.config.checkpoint.path = folder / "c";
    run.config.checkpoint.every = 2;
    run.config.checkpoint.async = async;
    run.train();
    CHECK(run.communicated.at({Purpose::control, Collective::barrier}).calls == 2 * 3);
  }
}

TEST_CASE("without evaluations there is none after the last step either") {
  const Output out;
  Recorder run(3);
  run.config.evaluate_every = 0;
  run.train();
  CHECK(run.asked == "issscr");
}

TEST_CASE("training ends with the first step that has diverged") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const StepResult good = {.loss = 5, .grad_norm = 2};
  const StepResult skipped = {.loss = 5, .grad_norm = infinity, .skipped = true};
  for (const StepResult& bad :
       {StepResult{.loss = nan, .grad_norm = 2}, StepResult{.loss = 5, .grad_norm = infinity},
        StepResult{.loss = nan, .grad_norm = nan, .skipped = true}}) {
    const Output out;
    Recorder run(5);
    run.results = {good, skipped, bad, good, good};
    CHECK_THROWS_WITH(run.train(), ContainsSubstring("step 3: ") && ContainsSubstring("diverged"));
    CHECK(run.asked == "isse3s");
  }
  const Output out;
  Recorder run(2);
  run.results = {skipped, skipped};
  CHECK_NOTHROW(run.train());
  Recorder validated(5);
  validated.validation_loss = nan;
  CHECK_THROWS_WITH(validated.train(),
                    ContainsSubstring("step 2: validation loss ") && ContainsSubstring("diverged"));
  CHECK(validated.asked == "isse3");
}

// What could be opened at the start and fails later is not the user's mistake (status 2), but an
// Error (status 1), and names the flag all the same.
TEST_CASE(
    "an output whose folder is removed while the run trains is an error that names the flag") {
  const std::vector<std::pair<std::string, std::string& (*)(RunConfig&)>> outputs = {
      {"--metrics", [](RunConfig& config) -> std::string& { return config.metrics; }},
      {"--tensorboard", [](RunConfig& config) -> std::string& { return config.tensorboard; }},
      {"--dump", [](RunConfig& config) -> std::string& { return config.dump; }},
      {"--checkpoint", [](RunConfig& config) -> std::string& { return config.checkpoint.path; }},
      {"--trace", [](RunConfig& config) -> std::string& { return config.trace; }},
      {"--export", [](RunConfig& config) -> std::string& { return config.export_to; }}};
  for (const auto& [flag, path_of] : outputs) {
    CAPTURE(flag);
    const Output out;
    const TestFolder folder;
    const std::string above = folder / "above";
    std::filesystem::create_directory(above);
    Recorder run(2);
    run.config.evaluate_every = 0;
    path_of(run.config) = above + "/output";
    run.before_step_ends = [&] { std::filesystem::remove_all(above); };
    std::string text;
    try {
      run.train();
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK_THAT(text, StartsWith(flag + " " + above));
    CHECK(text.find(flag, 1) == text.npos);
  }
}

// Else what has begun in the background waits for peers that never come.
TEST_CASE("whatever ends a run, its ranks give up what they have begun") {
  const DeviceType device = cuda_device_of_build();  // one rank alone has nothing in the background
  if (num_devices(device) == 0) return;
  const Output out;
  Recorder refused(1), failed(1);
  refused.device = failed.device = device;
  refused.refuses = true;
  CHECK_THROWS_AS(refused.train(), UserError);
  CHECK(refused.gave_up);
  failed.before_step_ends = [] { fail("broken"); };
  CHECK_THROWS_WITH(failed.train(), ContainsSubstring("broken"));
  CHECK(failed.gave_up);
}

TEST_CASE("replicas that differ at the end are an error") {
  const Output out;
  Recorder run(1);
  run.replicas_differ = true;
  CHECK_THROWS_WITH(run.train(), ContainsSubstring("they differ"));
  CHECK(run.asked == "ise3c");
}

}  // namespace
}  // namespace ladder
