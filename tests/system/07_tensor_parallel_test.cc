// Lesson 07 as a user runs it: numbers of ranks that cannot be, every way to communicate, files,
// failures.
#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // for traffic
#include <csignal>

#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const std::string kProgram = "07_tensor_parallel";

TEST_CASE("07: numbers of ranks that cannot split the model") {
  const auto refuse = [](size_t num_ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    check_refused(num_ranks, Flags{lesson_path(kProgram), "--model", "nano"} + flags, mentions);
  };
  refuse(4, {"--tensor-parallel-size", "2"},
         {"--tensor-parallel-size 2 on 4 ranks", "start 2 of them", "09_3d_parallel"});
  refuse(4, {}, {"--tensor-parallel-size 4", "2 heads", "2 would do"});
  refuse(4, {"--heads", "4", "--vocab", "5"}, {"vocabulary of 5 tokens", "2 would do"});
  refuse(2, {"--dtype", "fp16"}, {"--dtype fp16: " + kProgram, "take 10_mixed_precision"});
  for (const std::string value : {"0", "-1", "x", ""}) {
    refuse(2, {"--tensor-parallel-size=" + value}, {"--tensor-parallel-size"});
  }
}

TEST_CASE("07: lesson 01's numbers, however ranks communicate") {
  check_ways_to_communicate(4, {lesson_path(kProgram), "--micro-batch-size", "4"});
}

TEST_CASE("07: flags and weights from files, and metrics by axis") {
  const StepTraffic traffic = traffic_of_run_from_files(
      2, lesson_path(kProgram), {{"tensor-parallel-size", "2"}, {"micro-batch-size", "4"}});
  // M ((4 L + 2) R C + 3 R) s, as in the README, with 2 micro-batches of 4 rows of 32 tokens; the
  // three sums of the classifier are two calls.
  CHECK(traffic == StepTraffic{{"tensor.activation.all_reduce",
                                {2 * (4 * 4 + 2 + 2), 2 * (18 * 128 * 32 + 3 * 128) * 8}}});
}

TEST_CASE("07: a killed rank, and memory that is too small, end all ranks") {
  check_killed_rank(4, Flags{lesson_path(kProgram), "--model", "nano", "--heads", "4"}, SIGKILL,
                    "9 (Killed)");
  check_one_error(
      run_ranks(2, {lesson_path(kProgram), "--model", "nano", "--device-memory", "64KiB"}),
      {"out of device memory", "64 KiB"});
}

}  // namespace
}  // namespace ladder
