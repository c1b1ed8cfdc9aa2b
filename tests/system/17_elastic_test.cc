// Lesson 17 as a user runs it: the supervisor with a script in place of mpirun, which loses ranks
// as it is told, and then with real ranks.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const Flags kNano = {"--model",  "nano", "--dtype",          "fp64", "--threads", "1",
                     "--sample", "0",    "--evaluate-every", "0"};

Flags supervised(const std::string& mpirun, const std::string& ranks, const Flags& flags) {
  return Flags{lesson_path("17_elastic"), "--mpirun", mpirun, "--ranks", ranks} + kNano + flags;
}

// The rest of each line that begins so.
std::vector<std::string> lines_with(const std::string& beginning, const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(beginning)) lines.push_back(line.substr(beginning.size()));
  }
  return lines;
}

// ---- The supervisor, with ranks that do not exist

// A launcher that trains nothing. Each time it is started it takes the next line of the file
// `plan`: the step in which the ranks end, the step of the newest checkpoint (0: none), the rank
// that is lost (-: none), and the exit status. It writes its arguments to the file `calls`.
constexpr const char* kLauncher = R"script(#!/bin/sh
echo "$*" >>calls
ranks=$2
for word; do
  case $word in
    --step-file=*) file=${word#*=} ;;
    --checkpoint=*) folder=${word#*=} ;;
  esac
done
set -- $(sed -n "$(wc -l <calls)p" plan)
i=0
while [ "$1" -gt 0 ] && [ $i -lt "$ranks" ]; do
  printf "\\$(printf %o "$1")\0\0\0\0\0\0\0" >>"$file"
  i=$((i + 1))
done
if [ "$2" -gt 0 ]; then mkdir -p "$folder/step_000000$2"; fi
echo "what ranks say" >&2
[ "$3" = - ] || echo "error: rank $3 on host: ended by signal $(($4 - 128)) (Killed)" >&2
exit "$4"
)script";

struct Told {
  ProcessResult result;
  std::vector<std::string> events;  // what the supervisor has said
  std::vector<std::string> calls;   // what it has started
};

// Runs the supervisor with such ranks.
Told supervise(const std::string& ranks, const std::string& plan, const Flags& flags = {}) {
  const Scratch folder;
  const std::string launcher = folder.write("launcher", kLauncher);
  fs::permissions(launcher, fs::perms::owner_all);
  folder.write("plan", plan);
  const std::string temporary = folder.path() / "temporary";
  fs::create_directory(temporary);
  Told told;
  told.result = run_process(supervised(launcher, ranks, flags),
                            {.folder = folder.path(), .environment = {{"TMPDIR", temporary}}});
  told.events = lines_with("supervisor: ", told.result.out);
  if (fs::exists(folder.path() / "calls")) {
    told.calls = lines_with("", read_text(folder.path() / "calls"));
  }
  // A folder of the supervisor's own stays only if it says so.
  const bool stays = told.result.err.find("stays: --checkpoint " + temporary) != std::string::npos;
  CHECK(fs::is_empty(temporary) == !stays);
  return told;
}

TEST_CASE("17: ranks that are lost are left out, and what has failed does not fail again") {
  const Told told = supervise("4", "30 20 2 137\n33 30 0 139\n40 40 - 0\n",
                              {"--checkpoint", "c", "--fail", "2@30,1@36,3@32", "--steps", "40"});
  CHECK(told.result.status == 0);
  CHECK(told.events ==
        std::vector<std::string>{
            "4 ranks: data=4; a checkpoint every 10 steps, in c",
            "rank 2 was lost in step 30 (killed by signal 9); going on after step 20 with 3 ranks: "
            "data=3",
            "rank 0 was lost in step 33 (killed by signal 11); going on after step 30 with 2 "
            "ranks: data=2"});
  // The line of a rank that was lost has become the supervisor's.
  CHECK(told.result.err == "what ranks say\nwhat ranks say\nwhat ranks say\n");
  REQUIRE(told.calls.size() == 3);
  CHECK_THAT(told.calls[0], StartsWith("-n 4 ") && ContainsSubstring(" --fail=2@30,1@36,3@32") &&
                                !ContainsSubstring("--resume"));
  CHECK_THAT(told.calls[1], StartsWith("-n 3 ") && EndsWith(" --resume --fail=1@36"));
  CHECK_THAT(told.calls[2], StartsWith("-n 2 ") && EndsWith(" --resume --fail=1@36"));
  for (const std::string& call : told.calls) {
    CHECK_THAT(call,
               ContainsSubstring("/17_elastic --") && ContainsSubstring(" --model=nano ") &&
                   ContainsSubstring(" --steps=40 ") && ContainsSubstring(" --checkpoint=c ") &&
                   ContainsSubstring(" --checkpoint-every=10 ") && ContainsSubstring(" --keep=0 "));
  }
}

TEST_CASE("17: a layout that the ranks can make, idle ranks and spare ones") {
  const std::string lost = "5 0 1 137\n", done = "9 0 - 0\n";
  Told told = supervise("5", lost + done);
  CHECK_THAT(told.events.at(0), StartsWith("5 ranks: data=4, 1 idle; "));
  CHECK_THAT(told.events.at(1), EndsWith("; beginning again with 4 ranks: data=4"));
  CHECK_THAT(told.calls.at(0), StartsWith("-n 4 "));
  told = supervise("4", lost + done, {"--tensor-parallel-size", "2"});
  CHECK_THAT(told.events.at(0), ContainsSubstring("4 ranks: data=2,tensor=2; "));
  CHECK_THAT(told.events.at(1), ContainsSubstring("with 3 ranks: data=3 (asked for tensor=2)"));
  CHECK_THAT(told.calls.at(1), ContainsSubstring(" --tensor-parallel-size=1 "));
  told = supervise("2", lost + done, {"--spares", "1"});
  CHECK_THAT(told.events.at(0), ContainsSubstring("3 ranks: data=2, 1 idle; "));
  CHECK_THAT(told.events.at(1), ContainsSubstring("with 2 ranks: data=2"));
}

TEST_CASE("17: flags come from a file, too, and reach the ranks once") {
  const Scratch folder;
  const std::string file = folder.write("flags", "steps = 7\nranks = 3\ncheckpoint-every = 2\n");
  const Told told = supervise("2", "7 0 - 0\n",
                              {"--config", file, "--micro-batch-size=3", "--data", "a.bin,b.bin"});
  REQUIRE(told.calls.size() == 1);
  CHECK_THAT(told.calls[0], StartsWith("-n 2 ") && ContainsSubstring(" --steps=7 ") &&
                                ContainsSubstring(" --micro-batch-size=3 ") &&
                                ContainsSubstring(" --data=a.bin,b.bin ") &&
                                ContainsSubstring(" --checkpoint-every=2 ") &&
                                ContainsSubstring(" --keep=2 "));
}

// Runs until the supervisor gives up, and returns its one error.
std::string given_up(const std::string& ranks, const std::string& plan, size_t num_starts,
                     const Flags& flags = {}) {
  const Told told = supervise(ranks, plan, flags);
  CAPTURE(told.result.out, told.result.err);
  CHECK(told.result.status == 1);
  CHECK(told.calls.size() == num_starts);
  const std::vector<std::string> errors = lines_with("error: ", told.result.err);
  REQUIRE(errors.size() == 1);
  return errors[0];
}

TEST_CASE("17: what fails again and again ends, and says how to go on") {
  CHECK_THAT(given_up("4", "30 20 2 137\n30 20 1 137\n", 2),
             StartsWith("rank 1 was lost in step 30 (killed by signal 9); this step has "
                        "failed twice; the checkpoint after step 20 stays: --checkpoint ") &&
                 EndsWith("/checkpoints --resume goes on from it"));
  CHECK_THAT(given_up("4", "30 20 2 137\n30 20 1 137\n", 2, {"--checkpoint", "c"}),
             EndsWith("the checkpoint after step 20 stays: --checkpoint c --resume goes on "
                      "from it"));
  CHECK(given_up("4", "5 0 - 1\n5 0 - 1\n", 2) ==
        "the ranks ended with status 1 in step 5; this step has failed twice; there is no "
        "checkpoint yet");
  CHECK_THAT(given_up("4", "0 0 - 1\n", 1), ContainsSubstring("before the first step") &&
                                                ContainsSubstring("nothing has been trained"));
  CHECK_THAT(given_up("4", "5 0 - 1\n6 0 - 1\n7 0 - 1\n", 3, {"--max-restarts", "2"}),
             ContainsSubstring("--max-restarts 2 have been made"));
  CHECK_THAT(given_up("1", "5 0 0 137\n", 1), ContainsSubstring("no rank is left"));
}

TEST_CASE("17: an error is no lost rank: all of them begin again") {
  const Told told = supervise("4", "5 0 - 1\n9 0 - 0\n");
  CHECK(told.result.status == 0);
  CHECK_THAT(told.events.at(1),
             ContainsSubstring("the ranks ended with status 1 in step 5; beginning "
                               "again with 4 ranks: data=4"));
}

TEST_CASE("17: what the user has to change is not tried again") {
  const Told told = supervise("4", "0 0 - 2\n");
  CHECK(told.calls.size() == 1);
  CHECK(told.result.status == 2);
  const auto refuse = [](const std::string& ranks, const Flags& flags,
                         const std::vector<std::string>& mentions) {
    const Told refused = supervise(ranks, "", flags);
    check_user_error(refused.result, mentions);
    CHECK(refused.calls.empty());
  };
  refuse("4", {"--fail", "2"}, {"--fail", "'2'", "such as 2@30"});
  refuse("4", {"--fail", "4@1"}, {"--fail 4@1", "4 ranks"});
  refuse("4", {"--fail", "1@201"}, {"--fail 1@201", "--steps 200"});
  refuse("4", {"--tensor-parallel-size", "4"}, {"--tensor-parallel-size 4", "2 heads"});
  refuse("4", {"--pipeline-parallel-size", "9"}, {"at most 5 stages"});
  refuse("2", {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"},
         {"--tensor-parallel-size 2", "--pipeline-parallel-size 2", "--ranks 2"});
  refuse("0", {}, {"--ranks", "'0'"});
  refuse("4", {"--micro-batch-size", "5"}, {"--micro-batch-size 5", "--global-batch-size 24"});
  refuse("4", {"--step-file", "x"}, {"--step-file"});
  refuse("4", {"--stepz", "1"}, {"no such flag --stepz; did you mean --steps?"});
  refuse("4", {"--device", "virtual", "--cluster", "h100x4"}, {"--device virtual", "05_zero3"});
}

TEST_CASE("17: a launcher that is not there is named") {
  const ProcessResult result = run_process(supervised("no/such/launcher", "2", {}));
  check_user_error(result, {"--mpirun no/such/launcher: cannot be started"});
}

// ---- Real ranks

ProcessResult run_elastic(const std::string& ranks, const Flags& flags, const Scratch& folder) {
  return run_process(supervised(program_path("tools/mpirun"), ranks, flags),
                     // Names of mpirun's sockets are short of room.
                     {.folder = folder.path(), .environment = {{"TMPDIR", "/tmp"}}});
}

TEST_CASE("17: the loss curve goes on as if nothing had happened") {
  const Scratch folder;
  // Trains 8 steps, dumps each, and returns what the supervisor has said.
  const auto train = [&](const std::string& ranks, const std::string& dump, const Flags& more) {
    const ProcessResult result = run_elastic(
        ranks, Flags{"--steps", "8", "--checkpoint-every", "3", "--dump", dump} + more, folder);
    require_success(result);
    return lines_with("supervisor: ", result.out);
  };
  const auto check_same = [&](const std::string& a, const std::string& b,
                              const std::string& tolerance) {
    CAPTURE(a, b);
    check_equal_dumps(a, b, tolerance, {.folder = folder.path()});
  };
  CHECK(train("4", "whole", {}).size() == 1);
  const auto lost = train("4", "lost", {"--fail", "2@5"});
  REQUIRE(lost.size() == 2);
  CHECK(lost[1] ==
        "rank 2 was lost in step 5 (killed by signal 9); going on after step 3 with 3 ranks: "
        "data=3");
  // Three ranks add up the same terms in other groups than four: tests/lessons/equivalence.h.
  check_same("whole", "lost", "1e-11");
  // What was trained before the failure, and not again, is the same to the bit.
  for (const char* const step : {"1", "2", "3"}) {
    const std::string file = concat("/step_00000", step, ".safetensors");
    check_same("whole" + file, "lost" + file, "0");
  }
  // From a grid with ZeRO-1 to fewer ranks that share the batch alone, with ZeRO-3.
  const auto grid = train("4", "grid", {"--tensor-parallel-size", "2", "--fail", "3@5"});
  CHECK_THAT(grid.at(1), ContainsSubstring("data=3"));
  check_same("whole", "grid", "1e-11");
  // With a spare rank the layout is the same again, and so are the bits.
  train("2", "two", {});
  CHECK(train("2", "spared", {"--spares", "1", "--fail", "0@5"}).size() == 2);
  check_same("two", "spared", "0");
}

TEST_CASE("17: without a supervisor the ranks train, too") {
  const Scratch folder;
  const Flags program = Flags{lesson_path("17_elastic")} + kNano;
  for (size_t num_ranks : {1, 2}) {
    const ProcessResult result =
        run_ranks(num_ranks, program + Flags{"--steps", "2"}, {.folder = folder.path()});
    require_success(result);
    CHECK_THAT(result.out, ContainsSubstring("  batch    24 sequences a step") &&
                               !ContainsSubstring("supervisor"));
  }
  check_refused(2, program + Flags{"--ranks", "2"}, {"--ranks: needs --device virtual"});
  check_refused(2, program + Flags{"--fail", "2@1"}, {"--fail 2@1", "2 ranks"});
}

TEST_CASE("17: a signal to the supervisor ends all ranks, and one can go on from what is there") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const Scratch folder;
  // The shell is the supervisor's parent: it sends the signal when the second checkpoint is there.
  // It controls jobs, because else it would have SIGINT ignored in what runs in the background.
  const Flags run = supervised(
      program_path("tools/mpirun"), "2",
      {"--steps", "1000000000", "--checkpoint", "c", "--checkpoint-every", "2", "--keep", "3"});
  const std::string script =
      concat("\"$@\" >out 2>err & while [ ! -d c/step_00000004 ]; do sleep 0.02; done; kill -",
             signal, " $!; wait $!");
  const ProcessResult result =
      run_process(Flags{"bash", "-mc", script, "sh"} + run,
                  {.folder = folder.path(), .environment = {{"TMPDIR", "/tmp"}}});
  const std::string out = read_text(folder.path() / "out");
  CAPTURE(out, result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.status == 128 + signal);
  CHECK(read_text(folder.path() / "err").empty());
  const std::string last = lines_with("supervisor: ", out).back();
  CHECK_THAT(
      last, ContainsSubstring(concat("ended by signal ", signal)) && ContainsSubstring("--resume"));
  // Nobody trains any more: in the time of many steps no checkpoint is made or being made.
  const std::vector<std::string> before = folder.files();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(folder.files() == before);
  const std::string after = "after step ";
  const long step = std::stol(last.substr(last.find(after) + after.size()));
  const Flags resume = {"--steps", concat(step + 1), "--checkpoint", "c", "--resume"};
  const ProcessResult rest = run_elastic("1", resume, folder);
  require_success(rest);
  CHECK_THAT(rest.out, ContainsSubstring(concat("  resumed  ", after, step, " ")));
}

// The ranks that were left would hold the lock on the checkpoints.
TEST_CASE("17: it goes on where mpirun or tools/mpirun was killed, and still ends by a signal") {
  const Scratch folder;
  const Flags run = supervised(
      program_path("tools/mpirun"), "2",
      {"--steps", "1000000000", "--checkpoint", "c", "--checkpoint-every", "2", "--keep", "3"});
  const std::string script = R"sh(
    "$@" >out 2>err &
    for restarts in 1 2 3; do
      was=$(ls -A c 2>/dev/null | tail -n 1)
      until [[ $(ls c 2>/dev/null | grep -x 'step_[0-9]*' | tail -n 1) > $was ]]; do sleep 0.02; done
      launcher=$(pgrep --parent $!)
      case $restarts in
        1) kill -s KILL $(ps -o pid=,sid=,comm= --ppid $launcher |
          awk '$1 == $2 && $3 == "mpirun" { print $1 }') ;;
        2) kill -s KILL $launcher ;;
        3) kill -s KILL $launcher; sleep 0.1; kill -s TERM $!; break ;;
      esac
      until (($(grep -c 'going on after step' out) == restarts)); do sleep 0.02; done
    done
    wait $!
    echo status $?)sh";
  const ProcessResult result =
      run_process(Flags{"bash", "-c", script, "sh"} + run,
                  {.folder = folder.path(), .environment = {{"TMPDIR", "/tmp"}}});
  const std::string out = read_text(folder.path() / "out");
  CAPTURE(out, read_text(folder.path() / "err"));
  CHECK_FALSE(result.timed_out);
  CHECK(result.out == "status 143\n");
  const std::vector<std::string> events = lines_with("supervisor: ", out);
  // The signal comes while the supervisor ends what is left of the third run, or soon after that.
  CHECK((events.size() == 4 || events.size() == 5));
  for (size_t i = 1; i + 1 < events.size(); ++i)
    CHECK_THAT(events[i], StartsWith("the ranks ended with status 137"));
  CHECK_THAT(events.back(), StartsWith("ended by signal 15"));
}

}  // namespace
}  // namespace ladder
