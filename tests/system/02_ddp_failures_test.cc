// Lesson 02 when something breaks in the middle: all ranks end, and the reason is read once.
#include <catch2/catch.hpp>
#include <csignal>

#include "kernels/runtime/check.h"
#include "tests/system/failures.h"
#include "tests/system/mpirun.h"
#include "tests/system/scratch.h"

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

TEST_CASE("02: over --device-memory on every rank") {
  const ProcessResult result =
      run_ranks(4, nano_run() + Flags{"--steps", "1", "--device-memory", "64KiB"},
                {.time_limit = seconds(60)});
  check_one_error(result, {"--device-memory", "gradients", "64 KiB"});
  CHECK(result.err.find("What to try") == result.err.rfind("What to try"));
}

TEST_CASE("02: too little /dev/shm") {
  // A namespace of mounts with a small one; 32 MiB, because mpirun itself needs some.
  const Flags own_mounts = {
      "unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=32M none /dev/shm && exec \"$@\"", "sh"};
  const auto run = [&](const Flags& flags) {
    return run_process(own_mounts + flags, {.environment = {{"TMPDIR", "/tmp"}}});
  };
  const ProcessResult probe = run({"true"});
  if (probe.status != 0) {
    WARN("not tried: no mounts of one's own here: " << probe.err);
    return;
  }
  // 4 blocks of 12 x 512^2 elements and more: 97 MiB of gradients on two ranks.
  const Flags big = mpirun_command() + Flags{"-n", "2"} + nano_run() +
                    Flags{"--hidden", "512",     "--layers",
                          "4",        "--steps", "1",
                          "--sample", "0",       "--global-batch-size",
                          "2"};
  check_one_error(run(big), {"/dev/shm", "97.34 MiB", "--no-shared-memory"});
  const ProcessResult messages = run(big + Flags{"--no-shared-memory"});
  CAPTURE(messages.out, messages.err);
  CHECK(messages.status == 0);
}

}  // namespace
}  // namespace ladder
