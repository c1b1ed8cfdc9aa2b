// Lesson 14 as a user runs it: flags that cannot be, every way to communicate, files, a sequence
// that is too long for one rank, failures.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/process/scratch.h"

namespace ladder {
namespace {

using Catch::Matchers::Contains;

const std::string kProgram = "14_context_parallel";

TEST_CASE("14: ranks and slices that cannot be") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    check_refused(num_ranks, Flags{lesson_path(kProgram), "--model", "nano"} + flags, mentions);
  };
  refuse(4, {"--context-parallel-size", "3"},
         {"--context-parallel-size 3 does not divide 4 ranks", "6 ranks would do"});
  refuse(4, {"--sequence-length", "3"},
         {"--context-parallel-size 4", "a sequence of 3 tokens", "3 would do"});
  refuse(4, {"--context-parallel-size", "2", "--global-batch-size", "3"},
         {"--global-batch-size 3 does not divide among"});
  refuse(2, {"--slices", "diagonal"}, {"--slices", "diagonal", "contiguous", "zigzag"});
  refuse(2, {"--dtype", "fp16"}, {"--dtype fp16: " + kProgram, "take 10_mixed_precision"});
  for (const std::string value : {"0", "-1", "x", ""}) {
    refuse(2, {"--context-parallel-size=" + value}, {"--context-parallel-size"});
  }
}

TEST_CASE("14: lesson 01's numbers, however ranks communicate") {
  check_ways_to_communicate(4, {lesson_path(kProgram), "--micro-batch-size", "4"});
  check_ways_to_communicate(3, {lesson_path(kProgram), "--slices", "contiguous"});
}

TEST_CASE("14: lesson 01's numbers with data parallelism") {
  check_ways_to_communicate(
      4, {lesson_path(kProgram), "--context-parallel-size", "2", "--micro-batch-size", "2"});
}

TEST_CASE("14: flags and weights from files, and metrics by axis") {
  const StepTraffic traffic = traffic_of_run_from_files(
      2, lesson_path(kProgram), {{"slices", "contiguous"}, {"micro-batch-size", "4"}});
  // Of rank 0, as in the README, with 2 micro-batches of 4 sequences of 32 tokens, 4 blocks, C 32:
  // M L B 2 C (2 * 16 + 32) s in M L (2 + 2) messages.
  const std::pair<size_t, size_t> ring = {2 * 4 * 4, 2 * 4 * 4 * 2 * 32 * 64 * 8};
  CHECK(traffic.at("context.activation.send") == ring);
  CHECK(traffic.at("context.activation.recv") == ring);
  CHECK(traffic.size() == 3);  // and the gradients
}

TEST_CASE("14: a sequence that does not fit on one rank trains on four") {
  const Flags run = {"--model",   "nano", "--sequence-length",   "1024",
                     "--steps",   "2",    "--global-batch-size", "1",
                     "--threads", "1",    "--evaluate-every",    "0",
                     "--sample",  "0",    "--device-memory",     "4MiB"};
  for (const std::string program : {"01_single_gpu", "14_context_parallel"}) {
    const ProcessResult alone = run_process(Flags{lesson_path(program)} + run);
    CHECK(alone.status == 1);
    CHECK_THAT(alone.err, Contains("out of device memory") && Contains("4 MiB"));
  }
  const ProcessResult result = run_ranks(4, Flags{lesson_path(kProgram)} + run);
  require_success(result);
  CHECK_THAT(result.out, Contains("step 2/2") && !Contains("differs"));
}

TEST_CASE("14: the header counts the pairs on the critical path") {
  const auto header = [](const std::string& slices) {
    return run_ranks(4, {lesson_path(kProgram), "--model", "nano", "--steps", "1", "--sample", "0",
                         "--sequence-length", "64", "--slices", slices})
        .out;
  };
  // 16 tokens a rank: 136 pairs among its own, then three times 256, or half of that.
  CHECK_THAT(header("contiguous"), Contains("critical path: 904\n") && Contains("0  0 to 15 "));
  CHECK_THAT(header("zigzag"), Contains("critical path: 520\n") && Contains("0 to 7, 56 to 63 "));
}

TEST_CASE("14: a killed rank ends all ranks") {
  check_killed_rank(4, Flags{lesson_path(kProgram), "--model", "nano"}, SIGKILL, "9 (Killed)");
}

}  // namespace
}  // namespace ladder
