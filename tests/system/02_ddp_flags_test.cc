// Lesson 02 with flags or launchers that cannot be: status 2, one line for all ranks, nothing
// written.

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

// A launcher's four processes, by a shell: each has the rank $1, the size 4 and what else it sets.
ProcessResult start_four(const std::string& program, const std::string& variables) {
  const std::string shell = "for rank in 0 1 2 3; do " + variables +
                            " \"$@\" & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid || "
                            "status=$?; done; exit $status";
  return run_process({"sh", "-c", shell, "sh", lesson_path(program), "--model", "nano", "--steps",
                      "1", "--threads", "1"});
}

TEST_CASE("02: ranks of a launcher that MPI does not know: one line, nobody trains alone") {
  const auto refuse = [](const std::string& variables, const std::string& name,
                         const std::string& size) {
    check_user_error(start_four("02_ddp", variables), {name, size, "4 processes", "tools/mpirun"});
  };
  refuse("RANK=$rank WORLD_SIZE=4 TORCHELASTIC_RUN_ID=x", "torchrun", "WORLD_SIZE=4");
  refuse("PMI_RANK=$rank PMI_SIZE=4 PMI_FD=99", "another MPI", "PMI_SIZE=4");  // MPI_Init runs
  refuse("SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=4 PMIX_RANK=$rank", "srun",
         "SLURM_STEP_NUM_TASKS=4");
  const ProcessResult first =
      start_four("01_single_gpu", "FLUX_TASK_RANK=$rank FLUX_JOB_SIZE=4 FLUX_JOB_ID=f1");
  check_user_error(first, {"01_single_gpu runs on one rank", "Flux started 4", "02_ddp"});
}

TEST_CASE("01 and 02: variables that are left over from others do not matter") {
  for (const std::string lesson : {"01_single_gpu", "02_ddp"}) {
    const ProcessResult result = run_process(
        {lesson_path(lesson), "--model", "nano", "--steps", "1", "--evaluate-every", "0"},
        {.environment = {{"WORLD_SIZE", "4"},
                         {"RANK", "1"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "1"},
                         {"PMIX_RANK", "0"},
                         {"PMI_SIZE", "2"}}});
    CAPTURE(result.err);
    CHECK(result.status == 0);
    CHECK_THAT(result.out, ContainsSubstring("step 1/1"));
  }
}

}  // namespace
}  // namespace ladder
