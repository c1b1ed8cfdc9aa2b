// Lesson 16 as a user runs it: flags that cannot be, every way to communicate, drawings, memory.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic

#include <algorithm>
#include <regex>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

const std::string kProgram = "16_pipeline_schedules";

TEST_CASE("16: schedules that cannot be") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    const Flags four = {lesson_path(kProgram), "--model", "nano", "--layers", "4"};
    check_refused(num_ranks, four + flags, mentions);
  };
  const Flags interleaved = {"--schedule", "interleaved"};
  refuse(2, interleaved + Flags{"--chunks", "4"},
         {"--chunks 4", "8 virtual stages", "7 units", "at most 3 chunks"});
  refuse(3, interleaved + Flags{"--micro-batch-size", "2"},
         {"--schedule interleaved", "8 micro-batches on 3 stages", "--global-batch-size 18"});
  refuse(2, {"--schedule", "zb-v", "--chunks", "3"}, {"--chunks 3", "zb-v", "2 chunks"});
  refuse(2, {"--chunks", "2"}, {"--chunks 2", "zb-h1", "1 chunk", "interleaved"});
  refuse(8, {}, {"--pipeline-parallel-size 8", "at most 7 stages"});
  refuse(4, {"--pipeline-parallel-size", "5"}, {"--pipeline-parallel-size 5 on 4 ranks"});
  refuse(2, interleaved + Flags{"--stage-layers", "2,2"}, {"--stage-layers 2,2", "4 stages"});
  refuse(2, {"--recompute", "block"}, {"--recompute block", "zb-h1", "no memory", "take 1f1b"});
  refuse(2, interleaved + Flags{"--recompute", "every-3"}, {"--recompute every-3", "every-1"});
  refuse(2, interleaved + Flags{"--offload-activations"},
         {"--offload-activations", "interleaved", "take 1f1b"});
  for (const std::string value : {"dualpipe", "ZB-H1"}) {
    refuse(2, {"--schedule=" + value}, {"--schedule", "1f1b,interleaved,zb-h1,zb-h2,zb-v,auto"});
  }
  for (const std::string value : {"0", "-1", "x", ""})
    refuse(2, {"--chunks=" + value}, {"--chunks"});
  for (const std::string value : {"1,2", "1,2,3,4,x", "-1,1,1,1,1", "1,1,1,1,1,1"}) {
    refuse(2, {"--schedule", "auto", "--times=" + value}, {"--times"});
  }
}

// Two chunks of a stage share a workspace, which lesson 16 makes itself.
TEST_CASE("16: rounded logits take less memory") {
  const auto workspace = [](const Flags& more) {
    const Flags run = {
        lesson_path(kProgram), "--model", "nano",    "--layers", "4", "--dtype", "bf16",
        "--schedule",          "zb-v",    "--steps", "1"};
    const ProcessResult result = run_ranks(2, run + more);
    CAPTURE(result.out, result.err);
    REQUIRE(result.status == 0);
    return printed_workspace(result.out);
  };
  CHECK(workspace({"--round-logits"}) < workspace({}));
}

TEST_CASE("16: auto passes over chunks with too few blocks for --recompute") {
  const Flags run = {
      lesson_path(kProgram), "--model", "nano",        "--layers", "4", "--steps", "1",
      "--schedule",          "auto",    "--recompute", "every-2"};
  const ProcessResult result = run_ranks(2, run);
  CAPTURE(result.out, result.err);
  CHECK(result.status == 0);
  check_refused(2, run + Flags{"--chunks", "2"}, {"--recompute every-2", "every-1"});
  check_refused(2, run + Flags{"--stage-layers", "1,1,1,1"}, {"--recompute every-2", "every-1"});
}

TEST_CASE("16: auto keeps to the memory, and says how little is too little") {
  const Flags run = {lesson_path(kProgram),
                     "--model",
                     "nano",
                     "--layers",
                     "4",
                     "--steps",
                     "1",
                     "--micro-batch-size",
                     "1",
                     "--schedule",
                     "auto",
                     "--device-memory"};
  const ProcessResult refused = run_ranks(2, run + Flags{"100KiB"});
  check_user_error(refused, {"--device-memory 100 KiB", "no schedule", "smallest that works"});
  // What it names is enough, and a byte less is not.
  const std::string text = refused.err;
  const std::string before = "smallest that works is ";
  const std::string bytes = text.substr(text.find(before) + before.size());
  const size_t least = std::stoul(bytes);
  require_success(run_ranks(2, run + Flags{std::to_string(least)}));
  check_user_error(run_ranks(2, run + Flags{std::to_string(least - 1)}), {"no schedule"});
}

TEST_CASE("16: lesson 01's numbers, however ranks communicate") {
  const std::string schedule = GENERATE("interleaved", "zb-v");
  check_ways_to_communicate(
      2, {lesson_path(kProgram), "--micro-batch-size", "1", "--schedule", schedule});
}

TEST_CASE("16: flags and weights from files, and metrics by axis") {
  const StepTraffic traffic = traffic_of_run_from_files(2, lesson_path(kProgram),
                                                        {{"pipeline-parallel-size", "2"},
                                                         {"schedule", "interleaved"},
                                                         {"chunks", "2"},
                                                         {"stage-layers", "[1,1,1,1]"},
                                                         {"micro-batch-size", "4"}});
  // Rank 0 has parts 0 and 2: per micro-batch it sends two activations and a gradient. 2
  // micro-batches of 4 rows of 32 tokens; the token embedding is 256 x 32.
  const std::pair<size_t, size_t> messages = {6, 6 * 128 * 32 * 8};
  CHECK(traffic == StepTraffic{{"pipeline.activation.send", messages},
                               {"pipeline.activation.recv", messages},
                               {"embedding.gradient.all_reduce", {1, 256 * 32 * 8}}});
}

TEST_CASE("16: the schedule drawn, and a trace of what every stage did") {
  const Scratch folder;
  const ProcessResult result =
      run_ranks(2,
                Flags{lesson_path(kProgram)} + kSplitRun +
                    Flags{"--micro-batch-size", "1", "--schedule", "zb-v", "--draw", "schedule.svg",
                          "--trace", "trace.json"},
                {.folder = folder.path()});
  require_success(result);
  CHECK_THAT(result.out, !ContainsSubstring("differs") && ContainsSubstring("bubble of zb-v"));
  const std::string svg = read_text(folder.path() / "schedule.svg");
  check_well_formed(svg);
  CHECK_THAT(svg, ContainsSubstring("zb-v; stages: 2; micro-batches: 8") &&
                      ContainsSubstring("backward, weights"));
  const auto spans = spans_of_trace(read_text(folder.path() / "trace.json"), 2);
  // Four parts on two stages. The first stage has the first and the last one: both embeddings and
  // the classifier.
  for (size_t stage = 0; stage < 2; ++stage) {
    CAPTURE(stage);
    const std::string block = concat("h.", stage == 0 ? 0 : 1);
    CHECK(spans[stage].count(block + " backward_input") == 16);
    CHECK(spans[stage].count(block + " backward_weight") == 16);
    CHECK(spans[stage].count(block + " backward") == 0);
  }
  CHECK(spans[0].count("wte classifier") >= 16);
  CHECK(spans[0].count("embedding gradient all_reduce") == 0);
}

TEST_CASE("16: the schedule as CSV") {
  const Scratch folder;
  require_success(run_ranks(
      2,
      Flags{lesson_path(kProgram)} + kSplitRun +
          Flags{"--micro-batch-size", "4", "--schedule", "zb-v", "--draw", "schedule.csv"},
      {.folder = folder.path()}));
  CHECK(read_text(folder.path() / "schedule.csv") ==
        "0F0,0F1,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,0I1,0W1\n"
        "1F0,2F0,1F1,2F1,2I0,2W0,1I0,1W0,2I1,2W1,1I1,1W1\n");
}

// What a rank did in the second of two steps, in microseconds.
struct RecordedStep {
  double work = 0;            // forward and backward, together
  double begin = 0, end = 0;  // of the work
  double longest = 0;         // from the first update's end to the second's begin
  double shortest_message = 1e9;
};

std::vector<RecordedStep> second_step_of(const std::string& trace, size_t num_ranks) {
  static const std::regex kWork(".* (forward|classifier|backward(_input|_weight)?)");
  std::vector<RecordedStep> steps(num_ranks);
  const Json events = Json::parse(trace).at("traceEvents");
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    RecordedStep& step = steps[rank];
    std::vector<Json> updates;
    const auto own = [&](const Json& event) {
      return event.at("ph") == "X" && event.at("pid") == rank;
    };
    const auto begin_of = [](const Json& span) { return span.at("ts").get<double>(); };
    const auto end_of = [&](const Json& span) {
      return begin_of(span) + span.at("dur").get<double>();
    };
    for (const Json& event : events) {
      if (own(event) && std::string(event.at("name")).ends_with("update")) updates.push_back(event);
    }
    const double from = end_of(updates.at(updates.size() / 2 - 1));
    step.longest = begin_of(updates.at(updates.size() / 2)) - from;
    for (const Json& event : events) {
      if (!own(event) || begin_of(event) < from) continue;
      const std::string name = event.at("name");
      if (name == "pipeline activation recv") {
        step.shortest_message = std::min<double>(step.shortest_message, event.at("dur"));
      }
      if (!std::regex_match(name, kWork)) continue;
      step.work += event.at("dur").get<double>();
      if (step.begin == 0) step.begin = begin_of(event);
      step.end = end_of(event);
    }
  }
  return steps;
}

// The second stage has little to do and always waits for the first one.
TEST_CASE("16: what is reported of all stages is what their trace has") {
  constexpr double kMicroBatches = 8;
  const size_t num_ranks = 2;
  const Scratch folder;
  const Flags run = {lesson_path(kProgram),
                     "--schedule",
                     "1f1b",
                     "--stage-layers",
                     "7,1",
                     "--model",
                     "nano",
                     "--layers",
                     "8",
                     "--global-batch-size",
                     "8",
                     "--micro-batch-size",
                     "1",
                     "--steps",
                     "2",
                     "--evaluate-every",
                     "0",
                     "--sample",
                     "0",
                     "--threads",
                     "1",
                     "--trace",
                     "t"};
  const ProcessResult result = run_ranks(num_ranks, run, {.folder = folder.path()});
  require_success(result);
  std::smatch bubble, times;
  const std::regex times_said("--times ([^,]+),([^,]+),([^,]+),([^,]+),(\\S+)");
  REQUIRE(
      std::regex_search(result.out, bubble, std::regex("bubble of 1f1b: (\\S+) % of the wall")));
  REQUIRE(std::regex_search(result.out, times, times_said));
  CAPTURE(bubble[0], times[0]);
  double work = 0;  // of both stages, by the times that are printed, in microseconds
  for (size_t i = 1; i <= 4; ++i) work += 1000 * kMicroBatches * std::stod(times[i]);
  const double stage_time =
      work / static_cast<double>(num_ranks) / (1 - std::stod(bubble[1]) / 100);
  const double message = 1000 * std::stod(times[5]);

  RecordedStep all;
  for (const RecordedStep& step : second_step_of(read_text(folder.path() / "t"), num_ranks)) {
    all.work += step.work;
    all.end = std::max(all.end, step.end - step.begin);
    all.longest = std::max(all.longest, step.longest);
    all.shortest_message = std::min(all.shortest_message, step.shortest_message);
  }
  // Three digits are printed, of messages two. A unit's time is part of its action's.
  CHECK(work >= 0.99 * all.work);
  CHECK(work <= 1.01 * static_cast<double>(num_ranks) * all.longest);
  CHECK(stage_time >= 0.99 * all.end);
  CHECK(stage_time <= 1.01 * all.longest);
  CHECK(message >= 0.95 * all.shortest_message);
  // The time of the call, some microseconds, is added to that of the message.
  CHECK(message <= 1.05 * all.shortest_message + 50);
}

}  // namespace
}  // namespace ladder
