// Lesson 16 as a user runs it: flags that cannot be, every way to communicate, drawings, memory.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/process/scratch.h"

namespace ladder {
namespace {

const std::string kProgram = "16_pipeline_schedules";

TEST_CASE("16: schedules that cannot be") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    const Flags four = {lesson_path(kProgram), "--model", "nano", "--layers", "4"};
    check_refused(num_ranks, four + flags, mentions);
  };
  const Flags interleaved = {"--schedule", "interleaved"};
  refuse(2, interleaved + Flags{"--chunks", "4"},
         {"--chunks 4", "8 parts", "7 units", "at most 3 chunks"});
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
  for (const std::string value : {"dualpipe", "", "ZB-H1"}) {
    refuse(2, {"--schedule=" + value}, {"--schedule", "1f1b,interleaved,zb-h1,zb-v,auto"});
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

}  // namespace
}  // namespace ladder
