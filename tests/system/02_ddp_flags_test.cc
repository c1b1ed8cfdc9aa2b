// Lesson 02 with flags that cannot be: status 2, one line for all ranks, nothing written.

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const Flags kOutputs = {"--dump", "dump", "--metrics", "metrics.jsonl"};

void check_bad_flags(size_t num_ranks, const Flags& flags,
                     const std::vector<std::string>& mentions) {
  check_refused(num_ranks, Flags{lesson_path("02_ddp"), "--model", "nano"} + flags, mentions);
}

TEST_CASE("02: a batch that does not divide over the ranks") {
  check_bad_flags(3, {"--global-batch-size", "16"}, {"--global-batch-size 16", "3 ranks"});
  check_bad_flags(4, {"--global-batch-size", "2"}, {"--global-batch-size 2", "4 ranks"});
  check_bad_flags(2, {"--global-batch-size", "12", "--micro-batch-size", "4"},
                  {"--micro-batch-size 4", "--global-batch-size 12", "2 ranks"});
}

TEST_CASE("02: bucket sizes that are none") {
  for (const std::string value : {"0", "-1", "abc", "3x", "", "1e18EiB"}) {
    check_bad_flags(2, {"--bucket-bytes=" + value}, {"--bucket-bytes"});
  }
}

TEST_CASE("02: what no flag takes") {
  check_bad_flags(2, {"--no-such-flag"}, {"--no-such-flag"});
  check_bad_flags(2, {"--collective-timeout", "-1"}, {"--collective-timeout", "-1"});
  check_bad_flags(2, {"--naive=maybe"}, {"--naive", "maybe"});
}

TEST_CASE("02: files that are not there") {
  check_bad_flags(4, {"--data", "missing.txt"}, {"--data", "missing.txt"});
  check_bad_flags(4, {"--init", "missing.safetensors"}, {"missing.safetensors"});
}

TEST_CASE("02: one rank, and the same mistakes") {
  const Scratch folder;
  check_user_error(
      run_process({lesson_path("02_ddp"), "--bucket-bytes", "0"}, {.folder = folder.path()}),
      {"--bucket-bytes", "0"});
}

}  // namespace
}  // namespace ladder
