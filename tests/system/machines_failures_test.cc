// A run on several machines in which one breaks, or the network between them does: all ranks end in
// seconds, one line says what happened and where, and nothing is left on any node.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <random>
#include <regex>
#include <thread>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tests/system/cluster.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

// From what breaks to the end of the run: two seconds of --collective-timeout, about four until
// messages to a host that is cut off have been repeated often enough, and what a busy machine adds.
constexpr seconds kMost{10};

// Starts lesson 02 on two nodes with two ranks each, breaks it by `act` some time after the first
// step, and waits for its end. Fails the test unless it comes in time and the nodes are clean. Adds
// the seconds until the end to `seconds_taken` if it is not null.
ProcessResult broken_run(const Cluster& cluster, milliseconds after,
                         const std::function<void()>& act,
                         std::vector<double>* seconds_taken = nullptr) {
  const Scratch folder;
  const fs::path metrics = folder.path() / "metrics";
  const Flags argv = {lesson_path("02_ddp"),
                      "--model",
                      "nano",
                      "--threads",
                      "1",
                      "--evaluate-every",
                      "0",
                      "--steps",
                      "1000000000",
                      "--metrics",
                      metrics,
                      "--collective-timeout",
                      "2"};
  auto run = std::async(std::launch::async, [&] {
    return cluster.run({"-n", "4", "--hosts", "node1,node2"}, argv, {.time_limit = seconds(90)});
  });
  const auto has_ended = [&] { return run.wait_for(seconds(0)) == std::future_status::ready; };
  std::error_code error;
  while (!has_ended() && (fs::file_size(metrics, error) == 0 || error)) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  if (has_ended()) FAIL("it has ended before it was broken: " << run.get().err);
  std::this_thread::sleep_for(after);
  act();
  const Time broken = Clock::now();
  const bool is_in_time = run.wait_for(kMost) == std::future_status::ready;
  if (seconds_taken != nullptr) seconds_taken->push_back(seconds_since(broken));
  const ProcessResult result = run.get();
  CAPTURE(result.out, result.err);
  CHECK(is_in_time);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status != 0);
  CHECK_THAT(result.err, StartsWith("error: "));
  CHECK_THAT(result.err, !ContainsSubstring("-----"));  // a banner of mpirun's
  for (const std::string node : {"node1", "node2"}) cluster.mend(node);
  cluster.check_clean();
  return result;
}

void kill_rank(const Cluster& cluster, const std::string& node) {
  cluster.shell(node, "pkill -KILL --oldest 02_ddp");
}

// Rank 0, which is on each of the nodes once, finds that its disk is full.
TEST_CASE("machines: an error of one rank is all that is read, whatever it does to other nodes") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  const std::string metrics = folder.path() / "metrics";
  for (const std::string node : {"node1", "node2"}) {
    cluster.shell(node, concat("mount -t tmpfs -o size=4k none ", folder.path().string()));
  }
  for (const std::string node : {"node1", "node2"}) {
    const std::string hosts = node == "node1" ? "node1:2,node2:2" : "node2:2,node1:2";
    const ProcessResult result = cluster.run(
        {"--hosts", hosts}, {lesson_path("02_ddp"), "--model", "nano", "--threads", "1", "--steps",
                             "1000000000", "--evaluate-every", "0", "--metrics", metrics});
    CHECK(result.err == concat("error: rank 0 on ", node, ": --metrics ", metrics,
                               ": write failed: No space left on device\n"));
    CHECK(result.status == 1);
    cluster.shell(node, "rm " + metrics);
  }
  cluster.check_clean();
}

TEST_CASE("machines: a rank killed on another node") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const ProcessResult result =
      broken_run(cluster, milliseconds(0), [&] { kill_rank(cluster, "node2"); });
  CAPTURE(result.out, result.err);
  CHECK(std::regex_match(
      result.err, std::regex("error: rank [23] on node2: ended by signal 9 \\(Killed\\); .*\n")));
  CHECK(result.status == 137);
}

TEST_CASE("machines: a node is cut off, and those that wait for it say so") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const ProcessResult result = broken_run(cluster, milliseconds(0), [&] { cluster.cut("node2"); });
  CAPTURE(result.out, result.err);
  // The first to give up has waited longest: for a rank on node2, or for its neighbour on node1,
  // which waits for node2 itself. Which machine is gone is said by the line after that.
  CHECK(std::regex_search(
      result.err, std::regex("^error: rank [01] on node1: .*after 2 s nothing has come from .*"
                             "rank ([01] on node1|[23] on node2)")));
  CHECK_THAT(result.err, ContainsSubstring("error: host node2 no longer answers"));
  CHECK(result.status == 1);
}

TEST_CASE("machines: a node whose /dev/shm is too small for Open MPI") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  cluster.shell("node2", "mount -o remount,size=1M /dev/shm");
  require_success(cluster.run({"-n", "4", "--hosts", "node1,node2"},
                              {lesson_path("02_ddp"), "--model", "nano", "--steps", "1"}));
  cluster.shell("node2", "mount -o remount,size=1M /tmp");
  const ProcessResult refused =
      cluster.run({"-n", "4", "--hosts", "node1,node2"}, {lesson_path("02_ddp")});
  CAPTURE(refused.err);
  CHECK_THAT(refused.err, StartsWith("error: host node2: Open MPI needs 8200 KiB"));
  CHECK(std::ranges::count(refused.err, '\n') == 1);
  CHECK(refused.status == 2);
  cluster.check_clean();
}

TEST_CASE("machines: firewalls at the start") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const auto start = [&] {
    const ProcessResult result =
        cluster.run({"-n", "2", "--hosts", "node1,node2"},
                    {lesson_path("02_ddp"), "--model", "nano"}, {.time_limit = seconds(60)});
    CAPTURE(result.err);
    CHECK(result.status == 1);
    CHECK(std::ranges::count(result.err, '\n') == 1);
    cluster.check_clean();
    return result.err;
  };
  // node2 has no way to where mpirun is.
  cluster.cut("node2");
  CHECK_THAT(start(), StartsWith("error: host node2") && ContainsSubstring("reach mpirun"));
  cluster.mend("node2");
  // mpirun reaches both nodes, and they do not reach each other.
  for (const std::string node : {"node1", "node2"}) {
    cluster.shell("head", "ip link set " + node + " type bridge_slave isolated on");
  }
  CHECK_THAT(start(),
             ContainsSubstring("gets no connection to 10.77.0.") && ContainsSubstring("firewall"));
}

// LADDER_BREAKS says how often, and then all times are printed; the suite breaks few runs.
TEST_CASE("machines: cuts and kills at random moments") {
  if (!clusters_are_possible()) return;
  const char* const given = std::getenv("LADDER_BREAKS");
  const int times = given == nullptr ? 2 : std::atoi(given);
  const Cluster cluster(2);
  std::mt19937 random(1);
  std::vector<double> cuts_took, kills_took;  // seconds
  for (int i = 0; i < times; ++i) {
    const std::string node = random() % 2 == 0 ? "node1" : "node2";
    const bool cuts = i % 2 == 0;
    CAPTURE(i, node, cuts);
    broken_run(
        cluster, milliseconds(random() % 1000),
        [&] { cuts ? cluster.cut(node) : kill_rank(cluster, node); },
        cuts ? &cuts_took : &kills_took);
  }
  if (given != nullptr) {
    WARN("seconds after cuts: " << Catch::Detail::stringify(cuts_took));
    WARN("seconds after kills: " << Catch::Detail::stringify(kills_took));
  }
}

}  // namespace
}  // namespace ladder
