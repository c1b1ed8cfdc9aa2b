// Lessons on several machines: the nodes of tools/cluster.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <sstream>
#include <thread>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tests/sample.h"
#include "tests/system/cluster.h"
#include "tests/system/split_runs.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

TEST_CASE("machines: lessons equal lesson 01 on 2 x 2, 3 + 1 and 4 x 1 ranks") {
  if (!clusters_are_possible()) return;
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(run_single_gpu(kSplitRun + Flags{"--dump", "one"}, options));
  const std::vector<Flags> lessons = {{lesson_path("02_ddp")},
                                      {lesson_path("05_zero3")},
                                      {lesson_path("07_tensor_parallel")},
                                      {lesson_path("08_pipeline_parallel")},
                                      {lesson_path("09_3d_parallel"), "--tensor-parallel-size", "2",
                                       "--pipeline-parallel-size", "2"}};
  const Cluster cluster(4);
  testing::Sample sample(3);
  for (const std::string hosts :
       {"node1:2,node2:2", "node1:3,node2:1", "node1:1,node2:1,node3:1,node4:1"}) {
    for (const Flags& lesson : lessons) {
      if (!sample.takes()) continue;
      const ProcessResult result =
          cluster.run({"--hosts", hosts}, lesson + kSplitRun + Flags{"--dump", "many"}, options);
      CAPTURE(hosts, lesson[0], result.out);
      require_success(result);
      // The bytes are as predicted, and so are those between machines.
      CHECK_THAT(result.out,
                 ContainsSubstring("predicted between") && !ContainsSubstring("differs"));
      check_equal_dumps("one", "many", "1e-11", options);
      fs::remove_all(folder.path() / "many");
    }
  }
  cluster.check_clean();
}

TEST_CASE("machines: hosts share ranks evenly, or as they or a file say") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  const auto hosts = [&](const Flags& where) {
    const ProcessResult result =
        cluster.run(where, {"sh", "-c", "echo $OMPI_COMM_WORLD_RANK on $(uname -n)"});
    require_success(result);
    std::vector<std::string> lines;
    std::istringstream in(result.out);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  };
  const std::string file = folder.write("hosts", "# first\nnode2 slots=2\n\nnode1 slots=1\n");
  CHECK(hosts({"-n", "4", "--hosts", "node1,node2"}) ==
        std::vector<std::string>{"0 on node1", "1 on node1", "2 on node2", "3 on node2"});
  CHECK(hosts({"--hosts", "node1:1,node2:2", "--interface", "eth0"}) ==
        std::vector<std::string>{"0 on node1", "1 on node2", "2 on node2"});
  CHECK(hosts({"--hostfile", file}) ==
        std::vector<std::string>{"0 on node2", "1 on node2", "2 on node1"});
  CHECK(hosts({"-n", "1", "--hosts", "node2:2"}) == std::vector<std::string>{"0 on node2"});
  // Names that are no name any more when they are cut at a dot.
  for (const std::string names : {"eth0.node2,eth0.node1", "10.77.0.2,10.77.0.1"}) {
    CHECK(hosts({"-n", "2", "--hosts", names}) ==
          std::vector<std::string>{"0 on node2", "1 on node1"});
  }
}

TEST_CASE("machines: TMPDIR may have any name, and what is beside it stays") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  std::mt19937 random(1);
  const std::string kinds = " '\"*$\\`;&|(-~?\n\tab";
  for (int i = 0; i < 3; ++i) {
    std::string name = "a ";
    while (name.size() < 12) name += kinds[random() % kinds.size()];
    name += "z";
    CAPTURE(name);
    fs::create_directory(folder.path() / name);
    fs::create_directories(folder.path() / "a");  // its first word
    const std::vector<std::string> before = folder.files();
    require_success(cluster.run({"-n", "2", "--hosts", "node1,node2"}, {"true"},
                                {.environment = {{"TMPDIR", folder.path() / name}}}));
    CHECK(folder.files() == before);
  }
  cluster.check_clean();
}

TEST_CASE("machines: hosts that cannot be") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  const auto refuse = [&](const Flags& where, const std::vector<std::string>& mentions,
                          const Flags& argv = {"hostname"}) {
    CAPTURE(where);
    check_user_error(cluster.run(where, argv), mentions);
  };
  refuse({"-n", "2", "--hosts", "node1,node1"}, {"node1", "twice", "node1:2"});
  refuse({"-n", "3", "--hosts", "node1,node2"}, {"-n 3", "2 hosts", "node1:2"});
  refuse({"-n", "5", "--hosts", "node1:2,node2:2"}, {"-n 5", "4 slots"});
  refuse({"--hosts", "node1:2,node2"}, {"node1:2 node2", "for all or for none"});
  refuse({"--hosts", "node1:0"}, {"node1:0", "node1:4"});
  refuse({"--hosts", "node1,node2"}, {"-n RANKS", "2 hosts"});
  refuse({"-n", "2", "--hosts", ","}, {"--hosts", "no host"});
  refuse({"-n", "2", "--hostfile", "none"}, {"--hostfile none"});
  refuse({"--hostfile", folder.write("h", "node1 max=3\n")}, {"line 1", "node1 max=3", "slots=4"});
  refuse({"--hosts", "node1:1", "--hostfile", "h"}, {"--hosts", "--hostfile"});
  refuse({"-n", "2", "--hosts", "node1,node2", "--interface", "ib0"},
         {"host node1", "ib0", "lo eth0"});
  refuse({"-n", "2", "--hosts", "node1,node2"}, {"host node1", "no program", "nowhere"},
         {"./nowhere"});
  const ProcessResult scheduled =
      cluster.run({"--hosts", "node1:1"}, {"hostname"}, {.environment = {{"SLURM_JOB_ID", "7"}}});
  check_user_error(scheduled, {"--hosts", "scheduler", "number 7"});
  // Its name might come late.
  const ProcessResult unknown = cluster.run({"-n", "2", "--hosts", "node1,node7"}, {"hostname"});
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, StartsWith("host node7: ssh: Could not resolve hostname node7") &&
                              ContainsSubstring("\nerror: host node7 cannot be reached: ssh: "));
}

TEST_CASE("machines: hosts meet in a folder, without ssh") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  const Flags meet = {"env", "LADDER_MEET=" + folder.path().string()};
  const auto on_node1 = [&](const Flags& command) {
    return run_process(cluster_command({"exec", "--on", "node1"}) + meet + command);
  };
  const Flags where = {"-n", "4", "--hosts", "node1,node2"};
  const ProcessResult nobody = on_node1(mpirun_command() + where + Flags{"hostname"});
  check_user_error(nobody, {"host node2 cannot be reached", "tools/machines/launch/serve"});

  const std::string serve =
      fs::canonical(program_path("tools/mpirun")).parent_path() / "machines/launch/serve";
  cluster.shell("node2", serve + " " + folder.path().string() + " >/dev/null 2>&1 &");
  while (!fs::exists(folder.path() / "node2")) std::this_thread::yield();
  const ProcessResult result =
      on_node1(mpirun_command() + where +
               Flags{lesson_path("02_ddp"), "--model", "nano", "--steps", "2", "--threads", "1"});
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("ranks    4") && ContainsSubstring("step 2/2"));

  // Where the serve of a host ends, so does the run.
  auto run = std::async(std::launch::async, [&] {
    return on_node1(mpirun_command() + where +
                    Flags{"sh", "-c", "echo >" + folder.path().string() + "/began; sleep 1000"});
  });
  while (!fs::exists(folder.path() / "began")) std::this_thread::yield();
  cluster.shell("node2", "pkill -TERM -f '[l]aunch/serve'");
  const ProcessResult ended = run.get();
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, StartsWith("error: host node2: LADDER_MEET=") &&
                            ContainsSubstring("tools/machines/launch/serve has ended"));
  CHECK(std::ranges::count(ended.err, '\n') == 1);
  CHECK_FALSE(fs::exists(folder.path() / "node2"));
  cluster.check_clean();
}

TEST_CASE("machines: another build on one node is refused before ranks do anything together") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const Scratch folder;
  const std::string program = folder.path() / "02_ddp", other = folder.path() / "other";
  fs::copy_file(lesson_path("02_ddp"), program);
  fs::copy_file(program, other);
  fs::permissions(other, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(other, std::ios::app) << "x";
  cluster.shell("node2", "mount --bind " + other + " " + program);
  const ProcessResult result = cluster.run({"--hosts", "node1:1,node2:1"}, {program, "--help"});
  check_user_error(result, {"the build of 02_ddp", "rank 0 on node1", "rank 1 on node2"});
}

// What runs there may take its time to end, as a run that saves a checkpoint does.
TEST_CASE("cluster: a signal for exec reaches its command, and exec ends after it") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const std::string script = R"sh(
    folder=$(mktemp -d /var/tmp/cluster_test.XXXXXX) # which all nodes have
    try() {
      local signal=$1 number=$2 status=0
      shift 2
      env --default-signal=INT "$@" bash -c \
        "trap 'sleep 0.3; echo $signal >>\"$folder/out\"; exit 3' $signal TERM
         : >\"$folder/began.\$(uname -n)\"; while true; do sleep 0.05; done" &>/dev/null &
      until (($(ls "$folder" | grep -c began) == number)); do sleep 0.05; done
      kill -s $signal $!
      wait $! || status=$?
      echo "$signal: $(sort -u "$folder/out"), status $((status > 0)), left: $(pgrep -fc "$folder" || true)"
      rm "$folder"/*
    }
    for signal in HUP INT TERM USR1; do
      try $signal 1 "$@" exec
      try $signal 1 "$@" exec --on node2
    done
    try TERM 2 "$@" exec "$MPIRUN" -n 2 --hosts node1,node2
    rmdir "$folder")sh";
  const fs::path mpirun = fs::canonical(program_path("tools/mpirun"));
  const ProcessResult result = run_process(
      Flags{"env", "MPIRUN=" + mpirun.string(), "bash", "-ec", script, "sh"} + cluster_command({}));
  CAPTURE(result.err);
  std::string expected;
  for (const std::string signal :
       {"HUP", "HUP", "INT", "INT", "TERM", "TERM", "USR1", "USR1", "TERM"}) {
    expected += concat(signal, ": ", signal, ", status 1, left: 0\n");
  }
  CHECK(result.out == expected);
  cluster.check_clean();
}

TEST_CASE("cluster: wrong uses") {
  const auto refuse = [](const Flags& arguments, const std::string& mention) {
    const ProcessResult result = run_process(cluster_command(arguments));
    CAPTURE(arguments, result.out, result.err);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, StartsWith("tools/cluster: ") && ContainsSubstring(mention));
    CHECK(std::ranges::count(result.err, '\n') == 1);
  };
  refuse({}, "say what to do");
  refuse({"start"}, "'start'");
  refuse({"up", "-n", "0"}, "'0'");
  refuse({"up", "--bandwidth", "fast"}, "'fast'");
  refuse({"up", "--latency", "5"}, "'5'");
  refuse({"up", "--while", "me"}, "'me'");
  refuse({"up", "--while", ""}, "''");
  for (const std::string flag : {"-n", "--bandwidth", "--latency", "--while", "--show"}) {
    refuse({"up", flag}, flag + " needs a value");
  }
  refuse({"sbatch"}, "sbatch needs a script");
  refuse({"down"}, "there is no cluster");
  refuse({"exec", "true"}, "tools/cluster up makes one");
  if (!clusters_are_possible()) return;
  const Cluster cluster(1);
  refuse({"up"}, "is up already");
  refuse({"exec", "--on"}, "--on needs a node");
  refuse({"exec", "--on", "", "true"}, "no node ''");
  refuse({"exec", "--on=node1", "true"}, "no flag '--on=node1'; did you mean --on?");
  refuse({"cut", "node2"}, "no node 'node2', only head and node1");
  refuse({"sbatch", "x"}, "--slurm");
}

// While a node asks for an address in vain, it refuses connections there, and for some time after
// the cable is back.
TEST_CASE("cluster: a node that was cut off is reached at once when it is mended") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  // Says how a connection to node1 ends, if it does in time. Nobody listens there.
  const auto connect = [&](const std::string& seconds) {
    return cluster.shell("node2", "LC_ALL=C timeout " + seconds +
                                      " bash -c 'exec 3<>/dev/tcp/10.77.0.1/9' 2>&1 || true");
  };
  cluster.cut("node1");
  cluster.shell("node2", "ip neigh flush all");
  CHECK(connect("2.5") == "");
  cluster.mend("node1");
  CHECK_THAT(connect("5"), ContainsSubstring("Connection refused"));

  for (const std::string node : {"node1", "node2"}) {
    cluster.shell("head", "ip link set " + node + " type bridge_slave isolated on");
  }
  const ProcessResult result = run_process(cluster_command({"mend", "node2"}));
  CHECK(result.status == 1);
  CHECK(result.err ==
        "tools/cluster: node2 gets no answer from node1; is there a firewall between them?\n");
}

TEST_CASE("cluster: where the kernel cannot delay packets it says so, and goes on") {
  if (!clusters_are_possible()) return;
  const Scratch folder;
  const std::string tc = folder.write("tc",
                                      "#!/bin/sh\ncase $* in *netem*) exit 2 ;; esac\n"
                                      "PATH=/usr/sbin:/sbin exec tc \"$@\"\n");
  fs::permissions(tc, fs::perms::owner_all);
  const std::string path = concat(folder.path().string(), ":", std::getenv("PATH"));
  const ProcessResult up =
      run_process(cluster_command({"up", "-n", "1", "--latency", "1ms", "--bandwidth", "1gbit"}),
                  {.environment = {{"PATH", path}}});
  const ProcessResult shaped = run_process(
      cluster_command({"exec", "--on", "node1", "/usr/sbin/tc", "qdisc", "show", "dev", "eth0"}));
  run_process(cluster_command({"down"}));
  CHECK(up.status == 0);
  CHECK(up.err == "skipped: --latency: this kernel has no netem\n");
  CHECK_THAT(up.out, ContainsSubstring("is up"));
  CHECK_THAT(shaped.out, ContainsSubstring("rate 1Gbit") && !ContainsSubstring("netem"));
}

TEST_CASE("cluster: where a system forbids namespaces it says so") {
  if (!clusters_are_possible()) return;
  const ProcessResult result = run_process(
      Flags{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
            "mount -t tmpfs none /var/tmp && echo 0 >/proc/sys/user/max_net_namespaces && "
            "\"$@\"; echo status $?; ls /var/tmp/*",
            "sh"} +
      cluster_command({"up"}));
  CHECK(result.out == "status 1\n");
  CHECK_THAT(result.err, StartsWith("tools/cluster: no cluster could be made: ") &&
                             ContainsSubstring("forbids namespaces") &&
                             ContainsSubstring("No space left"));
  CHECK(std::ranges::count(result.err, '\n') == 1);
}

// Where somebody else may write, he could have root end any process.
TEST_CASE("cluster: a folder that is not this user's alone is not trusted") {
  if (!clusters_are_possible()) return;
  for (const std::string own :
       {"chmod 777 $base", "mv $base /var/tmp/b && ln -s b $base", "chown 1 $base"}) {
    if (own.starts_with("chown") && geteuid() != 0) continue;
    const Flags root = geteuid() == 0 ? Flags{} : Flags{"--user", "--map-root-user"};
    const std::string script = concat(R"(
      mount -t tmpfs none /var/tmp
      base=/var/tmp/ladder_cluster.0 folder=$base/test_)",
                                      getpid(), R"(
      mkdir -p $folder
      sleep 100 &
      victim=$!
      echo $victim $(sed 's/.*) //' /proc/$victim/stat | cut -d ' ' -f 20) >$folder/holder
      )",
                                      own, R"(
      "$@" || echo status $?
      kill $victim && echo it lives)");
    const ProcessResult result =
        run_process(Flags{"unshare"} + root + Flags{"--mount", "sh", "-ec", script, "sh"} +
                    cluster_command({"down"}));
    CAPTURE(own);
    CHECK(result.out == "status 2\nit lives\n");
    CHECK_THAT(result.err,
               StartsWith("tools/cluster: /var/tmp/ladder_cluster.0 is not a folder of") &&
                   ContainsSubstring("remove it"));
  }
}

TEST_CASE("cluster: its nodes see a clone and other folders, wherever they lie") {
  if (!clusters_are_possible()) return;
  const std::string script = R"sh(
    clone=$(mktemp -d /tmp/cluster_test.XXXXXX) shown=$(mktemp -d /dev/shm/cluster_test.XXXXXX)
    trap '"$clone/my clone/tools/cluster" down; rm -r "$clone" "$shown"' EXIT
    mkdir "$clone/my clone" "$shown/my data"
    cp -rL "$1" "$clone/my clone/tools"
    cd "$clone/my clone"
    tools/cluster up -n 2 --show "$shown/my data" >/dev/null
    echo text >"$shown/my data/in"
    tools/cluster exec tools/mpirun -n 2 --hosts node1,node2 sh -c 'cat "$0" >out' "$shown/my data/in"
    tools/cluster exec --on node1 cp "$shown/my data/in" "$shown/my data/out"
    cat out "$shown/my data/out"
    cd "$(mktemp -d "$clone/XXXXXX")" # is not shown
    "$clone/my clone/tools/cluster" exec --on node2 pwd)sh";
  const fs::path tools = fs::canonical(program_path("tools/mpirun")).parent_path();
  const ProcessResult result = run_process(
      Flags{"env", "LADDER_CLUSTER=test_" + concat(getpid()), "bash", "-ec", script, "sh", tools});
  CHECK(result.status == 0);
  CHECK(result.out == "text\ntext\n/\n");
  CHECK_THAT(result.err, StartsWith("tools/cluster: node2 has no folder /tmp/cluster_test.") &&
                             ContainsSubstring("--show"));
  CHECK(std::ranges::count(result.err, '\n') == 1);
}

TEST_CASE("cluster: what it made goes with its first process, or with the one that it is for") {
  if (!clusters_are_possible()) return;
  const auto is_up = [] { return run_process(cluster_command({"exec", "true"})).status == 0; };
  for (const bool by_owner : {false, true}) {
    const std::string script =
        by_owner ? "sleep 100 & \"$@\" up -n 1 --while $!; kill $!"
                 : "\"$@\" up -n 1; \"$@\" exec --on node1 sleep 1000 & sleep 0.5; "
                   "kill -9 $(cut -d ' ' -f 1 /var/tmp/ladder_cluster.$(id -u)/test_" +
                       concat(getpid()) + "/holder); wait";
    const ProcessResult result =
        run_process(Flags{"bash", "-c", script, "sh"} + cluster_command({}));
    CAPTURE(result.out, result.err);
    CHECK_THAT(result.out, ContainsSubstring("is up"));
    const Time deadline = Clock::now() + std::chrono::seconds(10);
    while (is_up() && Clock::now() < deadline) std::this_thread::yield();
    CHECK_FALSE(is_up());
    const Cluster next(1);  // is not in the way of another one
    CHECK(is_up());
  }
}

}  // namespace
}  // namespace ladder
