// tools/mpirun: how it ends, and that nothing is left of it. Keys are pressed on a terminal of its
// own.
#include "tests/system/mpirun.h"

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const Flags kEndless = {"--model",          "nano", "--threads", "1",
                        "--evaluate-every", "0",    "--steps",   "1000000000"};

// A script of a shell that has a terminal and controls jobs, as a person's does. "$@" is `command`.
class OnTerminal {
 public:
  OnTerminal(const std::string& script, const Flags& command, const std::string& temporary) {
    process_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    REQUIRE(process_ >= 0);
    if (process_ > 0) return;
    setenv("TMPDIR", temporary.c_str(), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    const Flags argv = Flags{"bash", "-mc", script, "sh"} + command;
    std::vector<char*> pointers;
    for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.data()));
    pointers.push_back(nullptr);
    execvp("bash", pointers.data());
    _exit(127);
  }
  ~OnTerminal() {
    close(terminal_);  // hangs up
    waitpid(process_, nullptr, 0);
  }
  OnTerminal(const OnTerminal&) = delete;

  void press(char key) { REQUIRE(write(terminal_, &key, 1) == 1); }
  // Reads what appears until both texts are there, the end, or a minute without anything. True if
  // they are. The next call looks after `text`.
  bool shows(const std::string& text, const std::string& other = "") {
    std::array<char, 4096> buffer;
    size_t at = 0;
    while ((at = shown_.find(text)) == std::string::npos ||
           shown_.find(other) == std::string::npos) {
      pollfd ready = {.fd = terminal_, .events = POLLIN, .revents = 0};
      const bool has_text = poll(&ready, 1, 60'000) == 1;
      const ssize_t count = has_text ? read(terminal_, buffer.data(), buffer.size()) : 0;
      if (count <= 0) {
        UNSCOPED_INFO("the terminal shows: " << shown_);
        return false;
      }
      shown_.append(buffer.data(), static_cast<size_t>(count));
    }
    shown_.erase(0, at + text.size());
    return true;
  }

 private:
  int terminal_ = -1;
  pid_t process_ = -1;
  std::string shown_;
};

TEST_CASE("mpirun: what cannot be written to standard output is an error") {
  const Flags command = Flags{"sh", "-c", "exec \"$@\" >/dev/full", "sh"} + mpirun_command() +
                        Flags{"-n", "2", "echo", "text"};
  const ProcessResult result = run_process(
      command, {.environment = {{"TMPDIR", "/tmp"}}, .time_limit = std::chrono::seconds(60)});
  CHECK(result.status == 1);
  CHECK(result.err == "error: standard output could not be written to the end\n");
}

TEST_CASE("mpirun: it ends as its ranks do, and passes on what they say") {
  const ProcessResult result = run_ranks(2, {"sh", "-c", "echo out; echo err >&2; exit 3"},
                                         {.time_limit = std::chrono::seconds(60)});
  CHECK(result.status == 3);
  CHECK(result.out.find("out\n") != std::string::npos);
  CHECK(result.err.find("err\n") != std::string::npos);
}

TEST_CASE("mpirun: a program that is not there is named, and mpirun is not said to have crashed") {
  const ProcessResult result = run_ranks(1, {"/no/such"}, {.time_limit = std::chrono::seconds(60)});
  CHECK(result.status != 0);
  CHECK_THAT(result.err, ContainsSubstring("/no/such") && !ContainsSubstring("mpirun itself"));
}

// Runs tools/mpirun with a script in the place of Open MPI's.
ProcessResult run_with(const std::string& script) {
  const Scratch folder;
  fs::permissions(folder.write("mpirun", "#!/bin/sh\n" + script), fs::perms::owner_all);
  const std::string path = concat(folder.path().string(), ":", std::getenv("PATH"));
  return run_process(mpirun_command() + Flags{"-n", "1", "true"},
                     {.environment = {{"PATH", path}}});
}

// Open MPI's mpirun sometimes crashes while it ends the ranks of a run that has failed.
TEST_CASE("mpirun: what a rank has said is all that is read where mpirun itself crashes") {
  const ProcessResult result = run_with(
      "echo 'error: rank 0 on a: full' >&2\n"
      "printf '\\n[a:%05d] *** Process received signal ***\\n' $$ >&2\n"
      "printf '[a:%05d] [ 0] libpmix.so.2\\n' $$ >&2\nulimit -c 0\nkill -SEGV $$\n");
  CHECK(result.err == "error: rank 0 on a: full\n");
  CHECK(result.status == 1);
}

TEST_CASE("mpirun: what version 5 says, and with which status, where a peer or a host is lost") {
  const std::string rule(74, '-');
  const ProcessResult killed = run_with(
      "cat >&2 <<end\n[a:00000] *** An error occurred in Socket closed\n"
      "[a:00000] *** reported by process [3516530689,0]\n[a:00000] *** Unknown error\n" +
      rule + "\nprterun noticed that process rank 2 with PID 7 on node b exited on\n" +
      "signal 9 (Killed).\n" + rule + "\nend\nexit 137\n");
  CHECK_THAT(killed.err, StartsWith("error: rank 2 on b: ended by signal 9 (Killed)"));
  CHECK(killed.status == 137);
  const ProcessResult cut =
      run_with("cat >&2 <<end\n" + rule +
               "\nPRTE has lost communication with a remote daemon.\n\n"
               "  Remote daemon: [prterun-a-9@0,2] on node b\n" +
               rule + "\n" + rule +
               "\nprterun was unable to reliably start one or more daemons.\n" + rule + "\nend\n");
  CHECK_THAT(cut.err, StartsWith("error: host b no longer answers"));
  CHECK(std::ranges::count(cut.err, '\n') == 1);
  CHECK(cut.status == 1);
  // A daemon may say that it has no way to mpirun before mpirun says that the daemon is gone.
  const ProcessResult told =
      run_with("cat >&2 <<end\nerror: host b cannot reach mpirun at port 9: a firewall\n" + rule +
               "\nORTE has lost communication with a remote daemon.\n\n"
               "  Remote daemon: [a-9@0,2] on node b\n" +
               rule + "\nend\nexit 205\n");
  CHECK(told.err == "error: host b cannot reach mpirun at port 9: a firewall\n");
  CHECK(told.status == 1);
  // Without such words nothing is added.
  const ProcessResult good = run_with("echo '[a:00012] *** a line of the program' >&2\n");
  CHECK(good.err == "[a:00012] *** a line of the program\n");
  CHECK(good.status == 0);
}

TEST_CASE("mpirun: Ctrl-C, Ctrl-C twice and Ctrl-\\ leave no file behind") {
  // Not below the test's folder: sockets lie there, and their names are short of room.
  const fs::path temporary = concat("/tmp/mpirun_test.", getpid());
  for (const std::string keys : {"\x03", "\x03\x03", "\x1c"}) {
    fs::create_directory(temporary);
    fs::path segments;  // has the name of the folder in TMPDIR
    {
      OnTerminal run("\"$@\"; echo ended with $?",
                     mpirun_command() + Flags{"-n", "2", lesson_path("02_ddp")} + kEndless,
                     temporary);
      REQUIRE(run.shows("step "));
      segments = "/dev/shm" / fs::directory_iterator(temporary)->path().filename();
      CHECK(fs::exists(segments));
      for (const char key : keys) {
        run.press(key);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      CHECK(run.shows(keys[0] == '\x03' ? "error: ended by signal 2 (SIGINT)\r\nended with 130"
                                        : "error: ended by signal 3 (SIGQUIT)\r\nended with 131"));
    }
    CHECK(fs::is_empty(temporary));
    fs::remove_all(temporary);
    CHECK_FALSE(fs::exists(segments));
  }
}

// Two ranks that say so when they are there, and of which nothing but force rids one. `mark` tells
// them from those of others.
Flags stubborn_ranks(const std::string& mark) {
  return mpirun_command() +
         Flags{"-n",
               "2",
               "bash",
               "-c",
               "trap '' HUP INT QUIT TERM USR1; echo begin; while sleep 0.05; do echo tick; done",
               mark};
}

// Shell functions for ranks with the mark $mark: how many are there, and how many of them are
// stopped; and wait until none is left and the folder `temporary` is empty, for half a minute at
// most.
const std::string kCountRanks = R"sh(
  ranks() { ps -eo stat=,args= | grep -c "^$1[^ ]* *bash -c trap .* $mark\$"; }
  check_clean() {
    for ((i = 0; i < 300; ++i)); do
      if (($(ranks) == 0)) && [[ -z $(ls "$1") ]]; then echo clean; return; fi
      sleep 0.1
    done
    echo "left: $(ranks) ranks and $(ls "$1")"
  }
)sh";

TEST_CASE("mpirun: Ctrl-Z stops all ranks, and afterwards they go on or end as the shell says") {
  const auto [then, goes_on, ends] = GENERATE(table<std::string, bool, std::string>({
      {"fg; echo ended with $?", true, "ended with 130"},
      {"bg; kill -INT %1", false, "error: ended by signal 2 (SIGINT)"},
      {"kill %1", false, "error: ended by signal 15 (SIGTERM)"},
      {"kill -KILL %1", false, ""},
  }));
  const fs::path temporary = concat("/tmp/mpirun_test.", getpid());
  fs::create_directory(temporary);
  const std::string mark = concat("stopped.", getpid());
  CAPTURE(then);
  OnTerminal run(concat("mark=", mark, kCountRanks, "\"$@\"; echo stopped $(ranks T); ", then,
                        "; check_clean ", temporary.string()),
                 stubborn_ranks(mark), temporary);
  REQUIRE(run.shows("tick"));
  run.press('\x1a');
  REQUIRE(run.shows("stopped 2\r\n"));
  if (goes_on) {
    CHECK(run.shows("tick"));
    run.press('\x03');
  }
  CHECK(run.shows(ends, "clean"));
  fs::remove_all(temporary);
}

TEST_CASE("mpirun: a signal that ends pkill before it has woken the ranks leaves none stopped") {
  const Scratch folder;
  fs::permissions(
      folder.write("pkill",
                   "#!/bin/sh\n"
                   "if [ \"$1\" = -CONT ] && mkdir \"$0.ended\"; then kill -INT $$; fi\n"
                   "exec /usr/bin/pkill \"$@\"\n"),
      fs::perms::owner_all);
  const fs::path temporary = concat("/tmp/mpirun_test.", getpid());
  fs::create_directory(temporary);
  const std::string mark = concat("woken.", getpid());
  OnTerminal run(concat("mark=", mark, kCountRanks, "PATH=", folder.path().string(),
                        ":$PATH; \"$@\"; bg; kill %1; check_clean ", temporary.string()),
                 stubborn_ranks(mark), temporary);
  REQUIRE(run.shows("tick"));
  run.press('\x1a');
  CHECK(run.shows("error: ended by signal 15 (SIGTERM)", "clean"));
  CHECK(fs::exists(folder.path() / "pkill.ended"));
  fs::remove_all(temporary);
}

TEST_CASE("mpirun: whatever signal ends it, no rank is left, and no file") {
  const fs::path folder = concat("/tmp/mpirun_test.", getpid());
  fs::create_directory(folder);
  // All at the same time. The ranks of a run that is killed need a moment.
  const std::string script = kCountRanks + R"sh(
    for signal in HUP INT QUIT USR1 USR2 PIPE TERM KILL; do
      (
        set -m # else the shell would have INT and QUIT ignored
        mark=$signal.$$ temporary=$PWD/$signal
        mkdir "$temporary"
        TMPDIR=$temporary "${@//MARK/$mark}" >"$signal.out" 2>"$signal.err" &
        until (($(grep -c begin "$signal.out") == 2)); do sleep 0.05; done
        kill -s "$signal" $!
        status=0
        wait $! || status=$?
        echo "$signal: $status, $(check_clean "$temporary") $(<"$signal.err")"
      ) &
    done
    wait)sh";
  const ProcessResult result =
      run_process(Flags{"bash", "-c", script, "sh"} + stubborn_ranks("MARK"),
                  {.folder = folder, .time_limit = std::chrono::seconds(90)});
  CAPTURE(result.err);
  for (const auto& [name, number] : std::vector<std::pair<std::string, int>>{{"HUP", 1},
                                                                             {"INT", 2},
                                                                             {"QUIT", 3},
                                                                             {"USR1", 10},
                                                                             {"USR2", 12},
                                                                             {"PIPE", 13},
                                                                             {"TERM", 15}}) {
    CHECK_THAT(result.out,
               ContainsSubstring(concat(name, ": ", 128 + number, ", clean error: ended by signal ",
                                        number, " (SIG", name, ")\n")));
  }
  CHECK_THAT(result.out, ContainsSubstring("KILL: 137, clean \n"));
  fs::remove_all(folder);
}

TEST_CASE("mpirun: where mpirun itself is killed, no rank is left when the run has ended") {
  const Scratch folder;
  const std::string mark = concat("orphan.", getpid());
  const std::string script = concat("mark=", mark, kCountRanks, R"sh(
    : >out; "$@" >>out &
    until (($(grep -c begin out) == 2)); do sleep 0.05; done
    kill -s KILL $(ps -o pid=,sid=,comm= --ppid $! | awk '$1 == $2 && $3 == "mpirun" { print $1 }')
    wait $!
    echo "status $?, $(ranks) ranks")sh");
  const ProcessResult result =
      run_process(Flags{"bash", "-c", script, "sh"} + stubborn_ranks(mark),
                  {.folder = folder.path(), .environment = {{"TMPDIR", "/tmp"}}});
  CHECK(result.out == "status 137, 0 ranks\n");
  CHECK(result.err == "error: mpirun itself was ended by signal 9\n");
}

// It holds none of the streams that mpirun reads to their end.
TEST_CASE("mpirun: what a rank leaves behind does not outlive a run that ends well") {
  const std::string child = concat("sleep 1000.", getpid());
  const ProcessResult result =
      run_ranks(2, {"bash", "-c", child + " </dev/null &>/dev/null & echo left"});
  CHECK(result.status == 0);
  CHECK(result.out == "left\nleft\n");
  CHECK(result.err == "");
  CHECK(run_process({"pgrep", "-fx", child}).out == "");
}

using Environment = std::vector<std::pair<std::string, std::string>>;

// Runs two ranks that say their numbers, where no host can be reached by ssh. "slow" never answers.
ProcessResult run_here(const Flags& where, Environment environment) {
  const Scratch folder;
  const std::string ssh = R"(#!/bin/sh
[ "$5" != slow ] || exec sleep 60
echo no ssh >&2
exit 255
)";
  fs::permissions(folder.write("ssh", ssh), fs::perms::owner_all);
  environment.emplace_back("PATH", concat(folder.path().string(), ":", std::getenv("PATH")));
  return run_process(
      mpirun_command() + where + Flags{"sh", "-c", "echo $OMPI_COMM_WORLD_SIZE ranks"},
      {.environment = environment, .time_limit = std::chrono::seconds(60)});
}

bool has_slurm() { return run_process({"sh", "-c", "command -v scontrol"}).status == 0; }

TEST_CASE(
    "mpirun: hosts that are this machine need no ssh, and hostfiles may be written as for Open "
    "MPI") {
  const Scratch folder;
  const auto check_two_ranks = [&](const Flags& where, const Environment& environment) {
    const ProcessResult result = run_here(where, environment);
    CAPTURE(where, result.err);
    CHECK(result.status == 0);
    CHECK(result.out == "2 ranks\n2 ranks\n");
    CHECK(result.err == "");
  };
  const std::string hosts = folder.write("hosts", "# mine\r\n \t\r\nlocalhost\tslots = 2\t\r\n");
  const std::string twice = folder.write("twice", "localhost\nlocalhost");
  check_two_ranks({"-n", "2", "--hosts", "localhost"}, {{"HOSTNAME", "another"}});
  check_two_ranks({"--hosts", "127.0.0.1:2"}, {});
  check_two_ranks({"--hostfile", hosts}, {});
  // Schedulers name a host once for each rank.
  check_two_ranks({"--hostfile", twice}, {{"PBS_JOBID", "7"}, {"PBS_NODEFILE", twice}});
  check_two_ranks({}, {{"PBS_JOBID", "7"}, {"PBS_NODEFILE", twice}});
  check_two_ranks({}, {{"LSB_JOBID", "7"}, {"LSB_DJOB_HOSTFILE", twice}});
  if (has_slurm()) return;
  check_two_ranks(
      {}, {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "a7"}, {"SLURM_TASKS_PER_NODE", "2"}});
}

TEST_CASE("mpirun: where one host cannot be reached, it does not wait for the others") {
  const auto begin = std::chrono::steady_clock::now();
  check_user_error(run_here({"-n", "2", "--hosts", "none,slow"}, {}), {"host none", "no ssh"});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("mpirun: what says which hosts there are, and makes no sense, is named") {
  const Scratch folder;
  const auto refuse = [&](const Flags& where, const Environment& environment,
                          const std::vector<std::string>& mentions) {
    CAPTURE(where);
    check_user_error(run_here(where, environment), mentions);
  };
  for (const char* const host : {"*", "a*", "a b", "a\nb", "-v", "a\tb", "a;b", "'"}) {
    refuse({"-n", "2", "--hosts", host}, {}, {"is no host", "node1:4"});
    refuse({"-n", "2", "--hostfile", folder.write("hosts", concat(host, " slots=2 x\n"))}, {},
           {"--hostfile", "slots=4"});
  }
  refuse({}, {{"TMPDIR", "/no such"}}, {"'/no such'", "TMPDIR"});
  refuse({}, {{"PBS_JOBID", "7"}}, {"job 7", "PBS_NODEFILE", "--hosts"});
  refuse({}, {{"PBS_JOBID", "7"}, {"PBS_NODEFILE", "none"}}, {"PBS_NODEFILE=none", "no such file"});
  refuse({}, {{"LSB_JOBID", "7"}, {"LSB_DJOB_HOSTFILE", "/dev/null"}},
         {"LSB_DJOB_HOSTFILE=/dev/null"});
  const auto refuse_slurm = [&](Environment environment, const std::string& mention) {
    environment.emplace_back("SLURM_JOB_ID", "7");
    refuse({"-n", "2"}, environment,
           {"SLURM_JOB_ID is 7", mention, "unset SLURM_JOB_ID", "--hosts"});
  };
  refuse_slurm({}, "SLURM_JOB_NODELIST");
  refuse_slurm({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_TASKS_PER_NODE", "2(x"}}, "'2(x'");
  if (has_slurm()) return;
  refuse_slurm({{"SLURM_JOB_NODELIST", "a[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}},
               "no scontrol");
  refuse_slurm({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}}, "tasks for 2");
}

// tools/machines/launch/NAME with these arguments.
Flags launch_command(const std::string& name, const Flags& arguments) {
  return Flags{fs::canonical(program_path("tools/mpirun")).parent_path() / "machines/launch" /
               name} +
         arguments;
}

TEST_CASE("serve: it removes and runs only what is its own") {
  const Scratch folder;
  const std::string name = run_process({"uname", "-n"}).out;
  const fs::path own = folder.path() / name.substr(0, name.size() - 1);
  const Flags serve = launch_command("serve", {folder.path()});
  const auto refuse = [&](const std::string& mention) {
    const ProcessResult result = run_process(serve, {.time_limit = std::chrono::seconds(20)});
    check_user_error(result, {"tools/machines/launch/serve", own, mention});
  };
  fs::create_directory(own);
  refuse("name another folder");
  folder.write(own.filename() / "mine", "text");
  refuse("name another folder");
  folder.write(own.filename() / "serve.lock", "");
  fs::permissions(own, fs::perms::all);
  refuse("not yours alone");
  fs::permissions(own, fs::perms::owner_all);
  // Now it looks like one that was killed. What somebody has put there stays.
  const std::string script = R"sh(
    "$@" & until [[ -e $0/alive ]]; do sleep 0.05; done
    "$@"; echo second $?
    ls "$0"
    kill $!; wait $!; echo first $?
    ls "$0")sh";
  const ProcessResult result = run_process(Flags{"bash", "-c", script, own} + serve,
                                           {.time_limit = std::chrono::seconds(20)});
  CHECK(result.out == "second 2\nalive\nmine\nserve.lock\nfirst 143\nmine\n");
  CHECK_THAT(result.err, ContainsSubstring("another one serves there"));
}

TEST_CASE("reach: it does not wait for a serve that has ended, nor trust one of somebody else") {
  const Scratch folder;
  // Each look at the clock is five seconds after the one before.
  const std::string script = R"sh(
    sleep() { SECONDS=$((SECONDS + 5)); command sleep 0.05; }
    mkdir b; chmod 777 b
    LADDER_MEET=$PWD; reach=$1
    (set -- b true; . "$reach"); echo $?
    "$2" . & until [[ -e $(uname -n)/alive ]]; do command sleep 0.05; done
    kill -KILL $!
    (set -- "$(uname -n)" true; . "$reach"); echo $?
    ls "$(uname -n)")sh";
  const ProcessResult result = run_process(
      Flags{"bash", "-c", script, "sh"} + launch_command("reach", {}) + launch_command("serve", {}),
      {.folder = folder.path(), .time_limit = std::chrono::seconds(20)});
  CHECK(result.out == "1\n1\nalive\nserve.lock\n");
  CHECK_THAT(result.err, ContainsSubstring("error: host b: ") &&
                             ContainsSubstring("not yours alone") &&
                             ContainsSubstring("is no longer served there"));
}

}  // namespace
}  // namespace ladder
