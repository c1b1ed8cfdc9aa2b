// Lesson 09 as a user runs it: grids that cannot be, lesson 01's numbers, every way to communicate,
// failures, more ranks than cores.
#include <sched.h>

#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic
#include <csignal>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const std::string kProgram = "09_3d_parallel";

Flags grid(const std::string& tensor, const std::string& pipeline) {
  return {"--tensor-parallel-size", tensor, "--pipeline-parallel-size", pipeline};
}

TEST_CASE("09: ranks that make no grid, and what the grid cannot split") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    check_refused(num_ranks, Flags{lesson_path(kProgram), "--model", "nano"} + flags, mentions);
  };
  refuse(4, grid("1", "5"), {"--pipeline-parallel-size 5", "4 ranks", "5 ranks would do"});
  refuse(4, grid("2", "3"),
         {"--tensor-parallel-size 2", "--pipeline-parallel-size 3", "4 ranks", "6 ranks would do"});
  refuse(4, grid("2", "1") + Flags{"--context-parallel-size", "4"},
         {"--context-parallel-size 4", "4 ranks", "8 ranks would do"});
  refuse(4, {"--context-parallel-size", "4", "--sequence-length", "3"},
         {"--context-parallel-size 4", "3 tokens", "3 would do"});
  refuse(4, grid("4", "1"), {"--tensor-parallel-size 4", "2 heads", "2 would do"});
  refuse(6, grid("1", "6"), {"--pipeline-parallel-size 6", "5 units", "at most 5 stages"});
  refuse(6, grid("2", "1"), {"--global-batch-size 16", "3 data-parallel ranks (of 6)"});
  refuse(4, grid("2", "1") + Flags{"--micro-batch-size", "3"},
         {"--micro-batch-size 3", "8 sequences", "2 data-parallel ranks (of 4)"});
  refuse(4, grid("0", "1"), {"--tensor-parallel-size", "'0'"});
  refuse(4, grid("1", "0"), {"--pipeline-parallel-size", "'0'"});
  refuse(2, {"--tensor-parallel-size=-1"}, {"--tensor-parallel-size", "'-1'"});
  refuse(2, {"--dtype", "fp16"}, {"--dtype fp16: " + kProgram, "take 10_mixed_precision"});
  refuse(2, {"--zero-stage", "2"}, {"--zero-stage", "'2'"});
  refuse(2, {"--schedule", "xyz"}, {"--schedule", "xyz", "naive,gpipe,1f1b"});
  refuse(2, grid("1", "2") + Flags{"--stage-layers", "1,2"}, {"--stage-layers 1,2", "2 layers"});
  const Flags two = grid("1", "2");
  refuse(4, two + Flags{"--schedule", "interleaved", "--micro-batch-size", "8"},
         {"--schedule interleaved", "1 micro-batch on 2 stages", "--global-batch-size 32"});
  refuse(4, two + Flags{"--schedule", "interleaved", "--chunks", "3"},
         {"--chunks 3", "6 virtual stages", "5 units", "at most 2 chunks"});
  refuse(4, two + Flags{"--chunks", "2"}, {"--chunks 2", "1f1b", "1 chunk", "interleaved"});
  refuse(4, two + Flags{"--schedule", "zb-v", "--recompute", "block"},
         {"--recompute block", "zb-v", "no memory is saved", "take 1f1b"});
  refuse(4, two + Flags{"--schedule", "zb-h1", "--offload-activations"},
         {"--offload-activations", "zb-h1", "take 1f1b"});
  refuse(2, {"--draw", "no/such/folder/schedule.svg"}, {"no/such/folder/schedule.svg"});
}

TEST_CASE("09: the axes together are lesson 01, with and without ZeRO-1") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags model = {"--model",
                       "nano",
                       "--layers",
                       "4",
                       "--heads",
                       "4",
                       "--dtype",
                       "fp64",
                       "--steps",
                       "3",
                       "--sample",
                       "60",
                       "--temperature",
                       "0",
                       "--global-batch-size",
                       "8",
                       "--micro-batch-size"};
  const ProcessResult single = run_single_gpu(model + Flags{"8", "--dump", "one"}, options);
  require_success(single);
  for (const std::string stage : {"0", "1"}) {
    const ProcessResult result =
        run_ranks(8,
                  Flags{lesson_path(kProgram)} + grid("2", "2") + model +
                      Flags{"1", "--schedule", "1f1b", "--zero-stage", stage, "--dump", stage},
                  options);
    require_success(result);
    CAPTURE(result.out);
    CHECK_THAT(result.out, ContainsSubstring("grid     2 pipeline x 2 data x 2 tensor"));
    CHECK_THAT(result.out, !ContainsSubstring("differs"));
    check_equal_dumps("one", stage, "1e-11", options);
    CHECK(sample_of(result.out) == sample_of(single.out));
    CHECK(validation_loss(result.out, "step 3") == validation_loss(single.out, "step 3"));
  }
}

TEST_CASE("09: auto keeps to the memory of a rank, and says how little is too little") {
  const Flags run =
      Flags{lesson_path(kProgram), "--model", "nano",         "--layers", "4", "--steps", "1",
            "--micro-batch-size",  "1",       "--zero-stage", "1"} +
      grid("2", "2") + Flags{"--schedule", "auto", "--device-memory"};
  const ProcessResult refused = run_ranks(8, run + Flags{"100KiB"});
  check_user_error(refused, {"--device-memory 100 KiB", "no schedule", "smallest that works"});
  const std::string before = "smallest that works is ";
  const size_t least = std::stoul(refused.err.substr(refused.err.find(before) + before.size()));
  const ProcessResult result = run_ranks(8, run + Flags{std::to_string(least)});
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("auto: bubble") && !ContainsSubstring("differs"));
  check_user_error(run_ranks(8, run + Flags{std::to_string(least - 1)}), {"no schedule"});
}

TEST_CASE("09: lesson 01's numbers, however ranks communicate") {
  const Flags on_axes = GENERATE(grid("2", "2"), grid("1", "2") + Flags{"--zero-stage", "1"},
                                 grid("1", "2") + Flags{"--schedule", "zb-v", "--zero-stage", "1"});
  check_ways_to_communicate(4, Flags{lesson_path(kProgram), "--micro-batch-size", "2"} + on_axes);
}

TEST_CASE("09: flags and weights from files, and metrics by axis") {
  const StepTraffic traffic = traffic_of_run_from_files(8, lesson_path(kProgram),
                                                        {{"tensor-parallel-size", "2"},
                                                         {"pipeline-parallel-size", "2"},
                                                         {"stage-layers", "[2,2]"},
                                                         {"zero-stage", "1"},
                                                         {"micro-batch-size", "1"}});
  // Rank 0 has the embeddings and two blocks, in 4 micro-batches of a row of 32 tokens. Of the
  // token embedding 128 rows; of 2 data-parallel ranks each has a half of it.
  const std::pair<size_t, size_t> messages = {4, 4 * 32 * 32 * 8};
  CHECK(traffic.at("pipeline.activation.send") == messages);
  CHECK(traffic.at("pipeline.activation.recv") == messages);
  // Behind the embedding, and two forward and two backward in each block.
  CHECK(traffic.at("tensor.activation.all_reduce") ==
        std::pair<size_t, size_t>{4 * 9, 4 * 9 * 32 * 32 * 8});
  CHECK(traffic.at("embedding.gradient.all_reduce") ==
        std::pair<size_t, size_t>{1, 128 * 32 / 2 * 8});
  CHECK(traffic.at("data.gradient.reduce_scatter") == traffic.at("data.parameter.all_gather"));
  CHECK(traffic.at("data.gradient.reduce_scatter").first == 4);  // units
  CHECK(traffic.size() == 6);
}

TEST_CASE("09: a killed rank, and a stage that has too little memory, end all ranks") {
  const Flags nano = Flags{lesson_path(kProgram), "--model", "nano"} + grid("2", "2");
  check_killed_rank(8, nano, SIGKILL, "9 (Killed)");
  // The first stage has all blocks: ranks 2 and 3 need less.
  check_one_error(run_ranks(4, nano + Flags{"--stage-layers", "2,0", "--micro-batch-size", "8",
                                            "--device-memory", "1MiB"}),
                  {"out of device memory", "of 1 MiB"});
}

TEST_CASE("09: eight ranks on one core") {
  cpu_set_t cores;
  REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &cores)) ++first;
  const ProcessResult result =
      run_process(Flags{"taskset", "-c", std::to_string(first)} + mpirun_command() +
                      Flags{"-n", "8", lesson_path(kProgram)} + grid("2", "2") + kSplitRun,
                  {.environment = {{"TMPDIR", "/tmp"}}, .time_limit = std::chrono::seconds(60)});
  CHECK_FALSE(result.timed_out);
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("step 2/2") && !ContainsSubstring("differs"));
}

}  // namespace
}  // namespace ladder
