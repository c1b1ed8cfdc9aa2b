#include "tests/system/cluster.h"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tools/programs/scratch.h"

namespace ladder {

using std::chrono::seconds;

Flags cluster_command(const Flags& arguments) {
  return Flags{"env", concat("LADDER_CLUSTER=test_", getpid()), program_path("tools/cluster")} +
         arguments;
}

namespace {

// A command that makes a cluster. Its nodes see the tests' files, wherever they lie.
Flags up(size_t num_nodes) {
  return {"up", "-n", concat(num_nodes), "--show", Scratch().path().parent_path()};
}

}  // namespace

bool clusters_are_possible(const Flags& more) {
  ProcessResult probe = run_process(cluster_command(up(1) + more));
  if (probe.status == 0) probe = run_process(cluster_command({"down"}));
  // 1 is what tools/cluster says where the system is in the way. Anything else is a defect.
  if (probe.status == 1) WARN("skipped: " << probe.err);
  return probe.status != 1;
}

Cluster::Cluster(size_t num_nodes, const Flags& more) : num_nodes_(num_nodes) {
  require_success(
      run_process(cluster_command(up(num_nodes) + Flags{"--while", concat(getpid())} + more)));
  first_files_ = leftovers();
}

Cluster::~Cluster() { run_process(cluster_command({"down"})); }

ProcessResult Cluster::run(const Flags& where, const Flags& argv, ProcessOptions options) const {
  options.environment.insert(options.environment.begin(),
                             {{"OMP_NUM_THREADS", "1"}, {"TMPDIR", "/tmp"}});
  return run_process(cluster_command({"exec"}) + mpirun_command() + where + argv, options);
}

std::string Cluster::shell(const std::string& node, const std::string& command) const {
  const ProcessResult result = run_process(
      cluster_command({"exec", "--on", node, "sh", "-c", command}), {.time_limit = seconds(20)});
  CAPTURE(node, command, result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

void Cluster::cut(const std::string& node) const {
  require_success(run_process(cluster_command({"cut", node})));
}

void Cluster::mend(const std::string& node) const {
  require_success(run_process(cluster_command({"mend", node})));
}

std::string Cluster::leftovers() const {
  std::string all;
  for (size_t i = 1; i <= num_nodes_; ++i) {
    // The node itself is process 1 and a sleep; this shell and ps come and go.
    all += shell(concat("node", i),
                 "ls -A /tmp /dev/shm | grep -v '^/.*:$'; "
                 "ps -A -o pid=,args= | grep -vE '^ *1 |sleep 1000|ps -A|grep|sh -c' || true");
  }
  return all;
}

void Cluster::check_clean() const {
  const Time deadline = Clock::now() + seconds(5);
  std::string left = leftovers();
  while (left != first_files_ && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    left = leftovers();
  }
  CHECK(left == first_files_);
}

}  // namespace ladder
