// Lesson 14 as a user runs it: flags that cannot be, every way to communicate, files, a sequence
// that is too long for one rank, failures.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic
#include <csignal>

#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

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
  refuse(4, {"--attention", "ulysses"},
         {"--context-parallel-size 4 does not divide a rank's 2 heads", "2 would do",
          "--attention ring"});
  refuse(2, {"--attention", "star"}, {"--attention", "star", "ring", "ulysses"});
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

TEST_CASE("14: with Ulysses lesson 01's numbers, however ranks communicate") {
  const Flags run = {lesson_path(kProgram), "--attention", "ulysses", "--micro-batch-size", "2"};
  check_ways_to_communicate(4, run);
  check_ways_to_communicate(4, run + Flags{"--context-parallel-size", "2", "--slices", "zigzag"});
}

TEST_CASE("14: with Ulysses ranks may have unequally many tokens") {
  const ProcessResult result = run_ranks(
      2, {lesson_path(kProgram), "--model", "nano", "--steps", "2", "--sample", "0",
          "--sequence-length", "31", "--global-batch-size", "2", "--attention", "ulysses"});
  require_success(result);
  // Both ranks together exchange M L B T 9 C s / 2 bytes, for T = 31 and C = 32 in 2 blocks, and
  // the table has the mean.
  CHECK_THAT(result.out, ContainsSubstring(" 35,712 ") && !ContainsSubstring("differs"));
  CHECK_THAT(result.out, ContainsSubstring("a rank has 1 of 2 heads in attention"));
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
  // M L B (5 * 16 C + 4 * 32 C / 2) s in 5 M L exchanges.
  const StepTraffic of_ulysses = traffic_of_run_from_files(
      2, lesson_path(kProgram), {{"attention", "ulysses"}, {"micro-batch-size", "4"}});
  const std::pair<size_t, size_t> exchanged = {5 * 2 * 4, 2 * 4 * 4 * 9 * 16 * 32 * 8};
  CHECK(of_ulysses.at("context.activation.all_to_all") == exchanged);
  CHECK(of_ulysses.size() == 2);
}

TEST_CASE("14: a sequence that does not fit on one rank trains on four") {
  const Flags run = {"--model",   "nano", "--sequence-length",   "1024",
                     "--steps",   "2",    "--global-batch-size", "1",
                     "--threads", "1",    "--evaluate-every",    "0",
                     "--sample",  "0",    "--device-memory",     "4MiB"};
  for (const std::string program : {"01_single_gpu", "14_context_parallel"}) {
    const ProcessResult alone = run_process(Flags{lesson_path(program)} + run);
    CHECK(alone.status == 1);
    CHECK_THAT(alone.err, ContainsSubstring("out of device memory") && ContainsSubstring("4 MiB"));
  }
  const ProcessResult result = run_ranks(4, Flags{lesson_path(kProgram)} + run);
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("step 2/2") && !ContainsSubstring("differs"));
}

TEST_CASE("14: the header counts the pairs on the critical path") {
  const auto header = [](const std::string& slices) {
    return run_ranks(4, {lesson_path(kProgram), "--model", "nano", "--steps", "1", "--sample", "0",
                         "--sequence-length", "64", "--slices", slices})
        .out;
  };
  // 16 tokens a rank: 136 pairs among its own, then three times 256, or half of that.
  CHECK_THAT(header("contiguous"),
             ContainsSubstring("critical path: 904\n") && ContainsSubstring("0  0 to 15 "));
  CHECK_THAT(header("zigzag"),
             ContainsSubstring("critical path: 520\n") && ContainsSubstring("0 to 7, 56 to 63 "));
}

TEST_CASE("14: a killed rank ends all ranks") {
  check_killed_rank(4, Flags{lesson_path(kProgram), "--model", "nano"}, SIGKILL, "9 (Killed)");
}

}  // namespace
}  // namespace ladder
