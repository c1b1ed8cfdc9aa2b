// Lesson 08 as a user runs it: cuts that cannot be, every way to communicate, drawings, failures.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic
#include <csignal>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const std::string kProgram = "08_pipeline_parallel";

TEST_CASE("08: stages that cannot be") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    const Flags four = {lesson_path(kProgram), "--model", "nano", "--layers", "4"};
    check_refused(num_ranks, four + flags, mentions);
  };
  refuse(4, {"--pipeline-parallel-size", "5"},
         {"--pipeline-parallel-size 5 on 4 ranks", "start 5 of them", "09_3d_parallel"});
  refuse(8, {}, {"--pipeline-parallel-size 8", "7 units", "at most 7 stages"});
  refuse(2, {"--stage-layers", "1,2"},
         {"--stage-layers 1,2", "3 layers", "has 4 layers", "for example --stage-layers 2,2"});
  refuse(2, {"--dtype", "fp16"}, {"--dtype fp16: " + kProgram, "take 10_mixed_precision"});
  refuse(2, {"--stage-layers", "1,2,1"}, {"--stage-layers 1,2,1", "3 stages", "2 stages"});
  refuse(3, {"--stage-layers", "2,0,2"}, {"--stage-layers 2,0,2", "only the first and the last"});
  for (const std::string value :
       {"a,b", "-1,5", "1.5,2.5", "", "99999999999999999999,1", "2,,2", "2,2,"}) {
    refuse(2, {"--stage-layers=" + value}, {"--stage-layers"});
  }
  for (const std::string value : {"xyz", "0", "GPIPE"}) {
    refuse(2, {"--schedule=" + value}, {"--schedule", value, "naive,gpipe,1f1b"});
  }
  for (const std::string value : {"0", "-1", "x", ""}) {
    refuse(2, {"--pipeline-parallel-size=" + value}, {"--pipeline-parallel-size"});
  }
}

TEST_CASE("08: a drawing that cannot be written is noticed before training") {
  const auto refuse = [](const std::string& path, const std::vector<std::string>& mentions) {
    check_refused(2, {lesson_path(kProgram), "--model", "nano", "--draw", path}, mentions);
  };
  refuse("no/such/folder/schedule.svg", {"no/such/folder/schedule.svg"});
  refuse("/dev", {"/dev"});
  refuse("", {"--draw", "empty"});
}

TEST_CASE("08: a drawing on a full disk") {
  const Scratch folder;
  // A namespace of mounts, with 4 KiB for the drawing.
  const Flags own_mounts = {
      "unshare",
      "-m",
      "sh",
      "-c",
      concat("mount -t tmpfs -o size=4k none ", folder.path().string(), " && exec \"$@\""),
      "sh"};
  const ProcessOptions options = {.environment = {{"TMPDIR", "/tmp"}}};
  const ProcessResult probe = run_process(own_mounts + Flags{"true"}, options);
  if (probe.status != 0) {
    WARN("not tried: no mounts of one's own here: " << probe.err);
    return;
  }
  const Flags draw = {lesson_path(kProgram),         "--model", "nano",
                      "--micro-batch-size",          "1",       "--draw",
                      folder.path() / "schedule.svg"};
  const ProcessResult full =
      run_process(own_mounts + mpirun_command() + Flags{"-n", "2"} + draw, options);
  check_one_error(full, {"schedule.svg", "No space left"});
  CHECK_THAT(full.out, !ContainsSubstring("step 1"));
}

TEST_CASE("08: lesson 01's numbers, however ranks communicate") {
  check_ways_to_communicate(4, {lesson_path(kProgram), "--micro-batch-size", "1"});
}

TEST_CASE("08: flags and weights from files, and metrics by axis") {
  const std::string schedule = GENERATE("naive", "gpipe");
  const StepTraffic traffic = traffic_of_run_from_files(2, lesson_path(kProgram),
                                                        {{"pipeline-parallel-size", "2"},
                                                         {"schedule", schedule},
                                                         {"stage-layers", "[3,1]"},
                                                         {"micro-batch-size", "4"}});
  // 2 micro-batches of 4 rows of 32 tokens; the token embedding is 256 x 32.
  const std::pair<size_t, size_t> messages = {2, 2 * 128 * 32 * 8};
  CHECK(traffic == StepTraffic{{"pipeline.activation.send", messages},
                               {"pipeline.activation.recv", messages},
                               {"embedding.gradient.all_reduce", {1, 256 * 32 * 8}}});
}

TEST_CASE("08: the schedule drawn, and a trace of what every stage did") {
  const Scratch folder;
  const ProcessResult result =
      run_ranks(4,
                Flags{lesson_path(kProgram)} + kSplitRun +
                    Flags{"--micro-batch-size", "1", "--schedule", "1f1b", "--draw", "schedule.svg",
                          "--trace", "trace.json"},
                {.folder = folder.path()});
  require_success(result);
  CHECK_THAT(result.out, !ContainsSubstring("differs") && ContainsSubstring("bubble of 1f1b"));
  CHECK(folder.files() == std::vector<std::string>{"schedule.svg", "trace.json"});
  const std::string svg = read_text(folder.path() / "schedule.svg");
  check_well_formed(svg);
  CHECK_THAT(svg, ContainsSubstring("1f1b; stages: 4; micro-batches: 8"));
  const auto spans = spans_of_trace(read_text(folder.path() / "trace.json"), 4);
  for (size_t stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    // Each stage has a block here: 8 micro-batches in each of two steps, and as many forward in
    // each of two evaluations.
    CHECK(spans[stage].count(concat("h.", stage, " forward")) == 32);
    CHECK(spans[stage].count(concat("h.", stage, " backward")) == 16);
    const size_t boundaries = stage == 0 || stage == 3 ? 1 : 2;
    CHECK(spans[stage].count("pipeline activation send") == 16 * boundaries);
    CHECK(spans[stage].count("pipeline control send") == (stage == 3 ? 0 : 16));
  }
}

TEST_CASE("08: a killed rank, and a stage that has too little memory, end all ranks") {
  check_killed_rank(4, {lesson_path(kProgram), "--model", "nano"}, SIGKILL, "9 (Killed)");
  // All blocks are on the first stage: the other needs less.
  const ProcessResult result = run_ranks(2, {lesson_path(kProgram), "--model", "nano",
                                             "--stage-layers", "2,0", "--device-memory", "1MiB"});
  check_one_error(result, {"rank 0", "out of device memory", "of 1 MiB"});
}

}  // namespace
}  // namespace ladder
