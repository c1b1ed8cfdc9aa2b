// Lesson 02 when something breaks in the middle: all ranks end, and the reason is read once.
#include <algorithm>
#include <csignal>
#include <optional>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

using std::chrono::seconds;

Flags nano_run() {
  return {lesson_path("02_ddp"), "--model", "nano", "--threads", "1", "--evaluate-every", "0"};
}

TEST_CASE("02: a killed rank ends all ranks") {
  check_killed_rank(4, nano_run(), SIGKILL, "9 (Killed); the kernel does so");
  check_killed_rank(2, nano_run(), SIGSEGV, "11 (Segmentation fault)\n");
}

TEST_CASE("02: rank 0 cannot go on, and the others wait for it") {
  const Scratch folder;
  const Flags more = GENERATE(Flags{}, Flags{"--no-shared-memory"});
  const ProcessResult result =
      run_ranks(4, nano_run() + Flags{"--steps", "5", "--metrics", "/dev/full"} + more,
                {.folder = folder.path(), .time_limit = seconds(60)});
  CAPTURE(more);
  check_one_error(result, {"rank 0", "/dev/full", "No space left"});
}

TEST_CASE("02: ranks that give up a late one destroy nothing that operations may still use") {
  const Scratch folder;
  const ProcessResult result =
      run_ranks(3,
                {program_path("tests/lessons/02_ddp/late_rank"), "--model", "nano", "--threads",
                 "1", "--evaluate-every", "0", "--global-batch-size", "3", "--trace", "t",
                 "--no-shared-memory", "--collective-timeout", "0.5"},
                {.folder = folder.path(), .time_limit = seconds(60)});
  check_one_error(result, {"after 0.5 s", "rank 2"});
  CHECK(folder.files().empty());
}

TEST_CASE("02: over --device-memory on every rank") {
  const ProcessResult result =
      run_ranks(4, nano_run() + Flags{"--steps", "1", "--device-memory", "64KiB"},
                {.time_limit = seconds(60)});
  check_one_error(result, {"--device-memory", "gradients", "64 KiB"});
  CHECK(result.err.find("What to try") == result.err.rfind("What to try"));
}

// Runs mpirun with `flags` in a namespace of mounts that has a /dev/shm of its own, with this
// option of tmpfs; nothing, which is said, where that cannot be.
std::optional<ProcessResult> run_with_shm(const std::string& option, const Flags& flags,
                                          const std::string& temporary = "/tmp") {
  const Flags own_mounts = {
      "unshare", "-m", "sh", "-c", "mount -t tmpfs -o " + option + " none /dev/shm && exec \"$@\"",
      "sh"};
  const auto run = [&](const Flags& command) {
    return run_process(own_mounts + command,
                       {.environment = {{"TMPDIR", temporary}, {"OMP_NUM_THREADS", "1"}},
                        .time_limit = seconds(60)});
  };
  const ProcessResult probe = run({"true"});
  if (probe.status == 0) return run(mpirun_command() + flags);
  WARN("not tried: no mounts of one's own here: " << probe.err);
  return std::nullopt;
}

TEST_CASE("02: too little /dev/shm") {
  // 4 blocks of 12 x 512^2 elements and more: 97 MiB of gradients on two ranks.
  const Flags big =
      Flags{"-n", "2"} + nano_run() + Flags{"--hidden", "512",     "--layers",
                                            "4",        "--steps", "1",
                                            "--sample", "0",       "--global-batch-size",
                                            "2"};
  const auto refused = run_with_shm("size=32M", big);
  if (!refused) return;
  check_one_error(*refused, {"/dev/shm", "97.34 MiB", "--shm-size", "--no-shared-memory"});
  const auto messages = run_with_shm("size=32M", big + Flags{"--no-shared-memory"});
  CAPTURE(messages->out, messages->err);
  CHECK(messages->status == 0);
}

TEST_CASE("02: a /dev/shm that is large enough for the gradients, but not for Open MPI") {
  const Flags run = Flags{"-n", "2"} + nano_run() + Flags{"--steps", "1"};
  const auto result = run_with_shm("size=1M", run);
  if (!result) return;
  require_success(*result);
  // Neither is there room elsewhere.
  const auto refused = run_with_shm("size=1M", run, "/dev/shm");
  CHECK(refused->status == 2);
  CHECK(std::ranges::count(refused->err, '\n') == 1);
  CHECK_THAT(refused->err, StartsWith("error: host ") && ContainsSubstring("--shm-size") &&
                               ContainsSubstring("8200 KiB for 2 ranks; /dev/shm has 1024 KiB"));
}

TEST_CASE("02: /dev/shm fills up after it was looked at") {
  const auto result = run_with_shm(
      "size=32M",
      {"-n", "2", program_path("tests/common/comm/node_memory_test_program"), "[full]"});
  if (!result) return;
  CAPTURE(result->out, result->err);
  CHECK(result->status == 0);
  CHECK_THAT(result->out, ContainsSubstring("All tests passed"));
}

// To start two ranks Open MPI itself needs five, and tools/mpirun one for its folder; with seven it
// starts, and the ranks' own first window finds none.
TEST_CASE("02: no more files in /dev/shm when ranks join") {
  const auto result = run_with_shm("nr_inodes=7", Flags{"-n", "2"} + nano_run());
  if (!result) return;
  CAPTURE(result->out, result->err);
  CHECK(result->status == 1);
  CHECK_THAT(result->err, ContainsSubstring("error: ") && ContainsSubstring("cannot be made") &&
                              ContainsSubstring("/dev/shm has ") &&
                              ContainsSubstring("0 files more"));
}

}  // namespace
}  // namespace ladder
