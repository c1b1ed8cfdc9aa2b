// tools/mpirun: what it finds on a host and in its environment: room, limits, hostfiles, names that
// come late, and what other launchers have left.
#include <unistd.h>

#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/cluster.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Environment = std::vector<std::pair<std::string, std::string>>;
using std::chrono::seconds;

// Each rank says how many there are.
const Flags kSay = {"sh", "-c", "echo $OMPI_COMM_WORLD_SIZE ranks"};

ProcessResult run_with(const Flags& before, const Flags& where, Environment environment = {},
                       const Flags& argv = kSay) {
  environment.insert(environment.begin(), {{"TMPDIR", "/tmp"}, {"OMP_NUM_THREADS", "1"}});
  return run_process(before + mpirun_command() + where + argv,
                     {.environment = environment, .time_limit = seconds(60)});
}

// A shell's script before tools/mpirun, which has a folder $T of its own.
Flags after(const std::string& script) { return {"bash", "-c", script + " && exec \"$@\"", "sh"}; }

std::string host_name() {
  const std::string name = run_process({"uname", "-n"}).out;
  return name.substr(0, name.size() - 1);
}

TEST_CASE("mpirun: too small a limit is named, at once") {
  for (const auto& [limit, says] :
       std::vector<std::pair<std::string, std::string>>{{"-n 10", "58 open files"},
                                                        {"-s 100", "256 KiB of stack"},
                                                        {"-f 100", "in a file"},
                                                        {"-d 1000", "of data"},
                                                        {"-v 90000", "of addresses"}}) {
    const ProcessResult result = run_with(after("ulimit " + limit), {"-n", "2"});
    CAPTURE(limit);
    check_user_error(result, {"host " + host_name(), "ulimit " + limit.substr(0, 2), says});
  }
  // Where the user may, those that nobody sets on purpose are raised.
  require_success(run_with(after("ulimit -S -n 30 && ulimit -S -s 100"), {"-n", "2"}));
}

// Sizes around what Open MPI needs there: either it runs, or a line says why not.
TEST_CASE("mpirun: a folder of TMPDIR without room for Open MPI's files is named") {
  const fs::path folder = concat("/tmp/mpirun_hosts_test.", getpid());
  fs::create_directory(folder);
  const auto run_in = [&](const std::string& size) {
    return run_with({"unshare", "--mount", "bash", "-c",
                     "mount -t tmpfs -o size=" + size + " none \"$0\" && exec \"$@\"", folder},
                    {"-n", "2"}, {{"TMPDIR", folder}},
                    {lesson_path("02_ddp"), "--model", "nano", "--steps", "1", "--sample", "0",
                     "--evaluate-every", "0", "--threads", "1"});
  };
  const ProcessResult probe = run_process({"unshare", "--mount", "true"});
  if (probe.status != 0) {
    WARN("skipped: no mounts of one's own here: " << probe.err);
  } else {
    for (const std::string size : {"32k", "1m", "8m", "9m"}) {
      CAPTURE(size);
      check_user_error(run_in(size), {"host " + host_name(), "need 9248 KiB for 2 ranks",
                                      folder.string(), "KiB free", "TMPDIR"});
    }
    require_success(run_in("9400k"));
  }
  fs::remove_all(folder);
}

TEST_CASE("mpirun: hostfiles of Open MPI's environment, of Grid Engine, and with max_slots") {
  const Scratch folder;
  const std::string host = host_name();
  const std::string file =
      folder.write("hosts", concat(host, " slots=2 max_slots=8\n# ", host, "\n"));
  const std::string nodes =
      folder.write("nodes", concat(host, " 1 all.q@", host, " <NULL>\n", host, " 1 b.q UNDEFINED"));
  const auto check_two = [&](const Flags& where, const Environment& environment) {
    const ProcessResult result = run_with({}, where, environment);
    CAPTURE(where, result.err);
    require_success(result);
    CHECK(result.out == "2 ranks\n2 ranks\n");
  };
  const Environment operator_of_mpi = {{"OMPI_MCA_orte_default_hostfile", file},
                                       {"OMPI_MCA_orte_keep_fqdn_hostnames", "true"},
                                       {"OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"}};
  check_two({"-n", "2"}, operator_of_mpi);
  check_two({}, operator_of_mpi);
  check_two({}, {{"PRTE_MCA_prte_default_hostfile", file}});
  check_two({"--hostfile", file}, {{"OMPI_MCA_orte_default_hostfile", "/no such"}});
  const Environment grid = {
      {"JOB_ID", "7"}, {"SGE_ROOT", "/sge"}, {"ARC", "lx-amd64"}, {"PE_HOSTFILE", nodes}};
  check_two({}, grid);
  check_user_error(run_with({}, {"-n", "2"}, {{"OMPI_MCA_orte_default_hostfile", "/no such"}}),
                   {"OMPI_MCA_orte_default_hostfile=/no such", "no such file"});
  check_user_error(run_with({}, {"-n", "2"}, {{"PE_HOSTFILE", "/no such"}}),
                   {"PE_HOSTFILE=/no such", "no such file"});
}

// FLUX_JOB_ID makes Debian's Open MPI crash.
TEST_CASE("mpirun: ranks see nothing of other launchers") {
  const Flags lesson = {
      lesson_path("02_ddp"), "--model", "nano",      "--steps", "1", "--sample", "0",
      "--evaluate-every",    "0",       "--threads", "1"};
  const std::string stray =
      "PMI_RANK PMI_SIZE PMI_FD PMIX_RANK PMIX_NAMESPACE SLURM_PROCID SLURM_STEP_NUM_TASKS "
      "SLURM_STEP_ID RANK WORLD_SIZE LOCAL_RANK TORCHELASTIC_RUN_ID FLUX_JOB_ID FLUX_TASK_RANK "
      "FLUX_JOB_SIZE JSM_NAMESPACE_RANK JSM_NAMESPACE_SIZE PALS_RANKID PALS_SIZE "
      "MV2_COMM_WORLD_RANK MPI_LOCALRANKID";
  const std::string set =
      concat("for name in ", stray, "; do export $name=1; done; export LADDER_X=1");
  const ProcessResult result =
      run_with(after(set), {"-n", "2"}, {},
               {"sh", "-c",
                concat("for name in ", stray,
                       "; do case $name in PMIX*) ;; *) [ -z \"$(printenv $name)\" ] || echo "
                       "$name; esac; done; printenv LADDER_X")});
  require_success(result);
  CHECK(result.out == "1\n1\n");
  require_success(run_with(after(set), {"-n", "2"}, {}, lesson));
  // Nor of a run that has started this one.
  require_success(run_with({"mpirun", "--allow-run-as-root", "-n", "1"}, {"-n", "2"}));
}

TEST_CASE("mpirun: a host whose name is not known yet is waited for, and that is said") {
  const Scratch folder;
  // It is there when it is asked a second time.
  const std::string ssh = R"(#!/bin/sh
until [ "${1#-}" = "$1" ]; do shift 2; done
if mkdir "$0.asked" 2>/dev/null; then
  echo "ssh: Could not resolve hostname $1: Name or service not known" >&2
  exit 255
fi
echo "no ssh"
exit 1
)";
  fs::permissions(folder.write("ssh", ssh), fs::perms::owner_all);
  const ProcessResult result = run_with(
      {}, {"-n", "2", "--hosts", "pod-0"},
      {{"PATH", concat(folder.path().string(), ":", std::getenv("PATH"))}, {"LADDER_MEET", ""}});
  CHECK(result.status == 2);
  CHECK(result.err ==
        "host pod-0: ssh: Could not resolve hostname pod-0: Name or service not known; waiting "
        "for it, for 20 s at most\nerror: host pod-0 cannot be reached: no ssh\n");
}

// As with docker --ipc=host; once the folder of TMPDIR is the same, too.
TEST_CASE("mpirun: hosts may see the same /dev/shm") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch shared, both;
  for (const std::string node : {"node1", "node2"}) {
    cluster.shell(node, concat("mount --bind ", shared.path().string(), " /dev/shm"));
  }
  const Flags lesson = {
      lesson_path("02_ddp"), "--model", "nano",      "--steps", "1", "--sample", "0",
      "--evaluate-every",    "0",       "--threads", "1"};
  for (const fs::path& temporary : {fs::path("/tmp"), both.path()}) {
    CAPTURE(temporary);
    const ProcessResult result = cluster.run({"-n", "4", "--hosts", "node1,node2"}, lesson,
                                             {.environment = {{"TMPDIR", temporary}}});
    CAPTURE(result.out);
    require_success(result);
  }
  cluster.check_clean();
  CHECK(fs::is_empty(both.path()));
}

}  // namespace
}  // namespace ladder
