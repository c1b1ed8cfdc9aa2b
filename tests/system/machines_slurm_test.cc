// Jobs of SLURM's, on the nodes of tools/cluster up --slurm.
#include <filesystem>

#include "tests/catch.h"
#include "tests/system/cluster.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

TEST_CASE("slurm: a job script checks the network and trains on all of its nodes") {
  const Flags with_slurm = {"--slurm"};
  if (!clusters_are_possible(with_slurm)) return;
  const Cluster cluster(2, with_slurm);
  // A tree that has only what the job needs.
  const Scratch tree;
  const fs::path tools = fs::path(program_path("tools/mpirun")).parent_path();
  fs::create_directory_symlink(tools, tree.path() / "tools");
  fs::create_directory_symlink(tools.parent_path(), tree.path() / "bazel-bin");
  const ProcessOptions options = {.folder = tree.path(), .time_limit = seconds(60)};

  const ProcessResult job =
      run_process(cluster_command({"sbatch", "tools/machines/slurm/ddp.sbatch", "--model", "nano",
                                   "--steps", "3"}),
                  options);
  CAPTURE(job.out, job.err);
  CHECK(job.status == 0);
  CHECK_THAT(job.out, ContainsSubstring("12 links of 4 ranks") && ContainsSubstring("on node2") &&
                          ContainsSubstring("step 3/3") && !ContainsSubstring("shmem"));
  CHECK_FALSE(read_text(tree.path() / "ddp_1.jsonl").empty());
  CHECK(cluster.shell("node1", "ls /dev/shm") + cluster.shell("node2", "ls /dev/shm") == "");

  // A job that fails has the status of what failed in it.
  const ProcessResult wrong = run_process(
      cluster_command({"sbatch", "tools/machines/slurm/ddp.sbatch", "--model", "none"}), options);
  CAPTURE(wrong.out, wrong.err);
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.out, ContainsSubstring("error: --model"));

  // Ranks that srun itself starts find each other by PMIx, and say so where they do not.
  const Flags train = {lesson_path("02_ddp"), "--model", "nano", "--steps", "2"};
  const ProcessResult alone = run_process(
      cluster_command(Flags{"exec", "srun", "--mpi=pmix", "-N", "2", "-n", "4"} + train), options);
  CAPTURE(alone.out, alone.err);
  CHECK(alone.status == 0);
  CHECK_THAT(alone.out, ContainsSubstring("ranks    4") && ContainsSubstring("step 2/2"));
  const ProcessResult apart = run_process(
      cluster_command(Flags{"exec", "srun", "--mpi=none", "-N", "2", "-n", "2"} + train), options);
  CHECK(apart.status == 2);
  CHECK_THAT(apart.err, ContainsSubstring("error: srun has started 2 processes") &&
                            ContainsSubstring("--mpi=pmix"));
}

}  // namespace
}  // namespace ladder
