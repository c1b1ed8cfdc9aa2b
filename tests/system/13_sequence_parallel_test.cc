// Lesson 13 as a user runs it: numbers of ranks and flags that cannot be, every way to communicate,
// files, failures.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic
#include <csignal>

#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const std::string kProgram = "13_sequence_parallel";

TEST_CASE("13: numbers of ranks that cannot split the model or the tokens") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    check_refused(num_ranks, Flags{lesson_path(kProgram), "--model", "nano"} + flags, mentions);
  };
  refuse(4, {"--tensor-parallel-size", "2"}, {"--tensor-parallel-size 2 on 4 ranks"});
  refuse(4, {}, {"--tensor-parallel-size 4", "2 heads", "2 would do"});
  refuse(4, {"--heads", "4", "--sequence-length", "5", "--micro-batch-size", "1"},
         {"--micro-batch-size 1", "1 sequence of 5 tokens", "4 ranks"});
  refuse(2, {"--gathered", "keep", "--recompute", "block"},
         {"--gathered keep", "--recompute block"});
  for (const std::string value : {"never", ""}) refuse(2, {"--gathered=" + value}, {"--gathered"});
}

TEST_CASE("13: lesson 01's numbers, however ranks communicate") {
  check_ways_to_communicate(4, {lesson_path(kProgram), "--micro-batch-size", "4"});
}

TEST_CASE("13: flags and weights from files, and metrics by axis") {
  // As in the README, with M = 2 micro-batches of 4 sequences of T = 32 tokens: R = 128 rows of C =
  // 32 elements, L = 4 blocks, 8 bytes an element.
  const auto traffic = [](const std::string& gathered) {
    return traffic_of_run_from_files(2, lesson_path(kProgram),
                                     {{"micro-batch-size", "4"}, {"gathered", gathered}});
  };
  const size_t rows = 128 * 32 * 8;  // bytes
  StepTraffic expected = {
      {"tensor.activation.reduce_scatter", {2 * 18, 2 * 18 * rows}},
      {"tensor.activation.all_gather", {2 * 26, 2 * 26 * rows}},
      {"tensor.activation.all_reduce", {2 * 2, 2 * 3 * 128 * 8}},
      // Parameters that are not split lie between those that are: before the first sublayer, and
      // after each.
      {"tensor.gradient.all_reduce", {2 * 4 + 1, (6 * 4 * 32 + 32 * 32 + 2 * 32) * 8}}};
  CHECK(traffic("again") == expected);
  expected["tensor.activation.all_gather"] = {2 * 18, 2 * 18 * rows};
  CHECK(traffic("keep") == expected);
}

TEST_CASE("13: a killed rank, and memory that is too small, end all ranks") {
  check_killed_rank(4, Flags{lesson_path(kProgram), "--model", "nano", "--heads", "4"}, SIGKILL,
                    "9 (Killed)");
  check_one_error(
      run_ranks(2, {lesson_path(kProgram), "--model", "nano", "--device-memory", "64KiB"}),
      {"out of device memory", "64 KiB"});
}

}  // namespace
}  // namespace ladder
