// tools/mpirun: what a signal does to its ranks. They are told, have time to save, and are ended by
// force where they do not end. What is left of a run is in mpirun_test.cc.
#include <unistd.h>

#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/cluster.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// A rank that waits for signals and, told by one, saves for $SAVES seconds. All ranks end together,
// as they do in MPI_Finalize, with the status of the signal. Each says once that it begins, is
// told, and has saved.
const std::string kRank = R"sh(#!/bin/bash
end() {
  echo "told $1"
  for ((i = 0; i < SAVES * 10; ++i)); do sleep 0.1; done
  : >"$FILES/saved.$OMPI_COMM_WORLD_RANK"
  for ((i = 0; i < OMPI_COMM_WORLD_SIZE; ++i)); do
    until [[ -e $FILES/saved.$i ]]; do sleep 0.05; done
  done
  echo saved
  exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT USR1 TERM; do trap "end $signal" $signal; done
echo begin
while true; do sleep 0.05; done
)sh";

// Functions of a shell in the folder with the rank, which runs "$@", tools/mpirun:
//   start NAME [FLAGS]: starts two ranks, and waits until they are there. SHELL_AROUND: each below a shell.
//   session: prints the number of their session, which is mpirun's.
//   result NAME: waits for the end, and prints the status, what the ranks have said, in lines that are sorted, and
//   what is left of the run.
const std::string kShell = R"sh(
  start() {
    set -m # else the shell would have INT ignored
    name=$1
    mkdir "$name" "$name/tmp" && : >"$name/out"
    export FILES=$PWD/$name
    program=(env "FILES=$FILES" "SAVES=$SAVES" "$PWD/rank")
    [[ -z ${SHELL_AROUND-} ]] || program=(bash -c '"$0" "$@"; exit $?' "${program[@]}")
    TMPDIR=$FILES/tmp "${mpirun[@]}" "${program[@]}" "${@:2}" >"$name/out" 2>"$name/err" &
    run=$!
    until (($(grep -c begin "$name/out") == ${RANKS-2})); do
      kill -0 "$run" || return
      sleep 0.05
    done
  }
  session() { ps -o pid=,sid=,comm= --ppid "$run" | awk '$1 == $2 && $3 ~ /^(mpirun|prterun)$/ { print $1 }'; }
  result() {
    local status=0
    wait "$run" || status=$?
    echo "$name: $status, $(grep -hv begin "$name/out" | sort | uniq -c | xargs), $(grep -v Terminated "$name/err"), $(
      find "$name/tmp" -mindepth 1 | wc -l) files"
  }
  mpirun=("$@")
)sh";

// Runs a shell's script after kShell in a folder with the rank and returns what it prints.
std::string run_script(const std::string& script, const Flags& mpirun, const Flags& before = {}) {
  const Scratch folder;
  fs::permissions(folder.write("rank", kRank), fs::perms::owner_all);
  const ProcessResult result =
      run_process(before + Flags{"bash", "-c", kShell + script, "sh"} + mpirun,
                  {.folder = folder.path(),
                   .environment = {{"OMP_NUM_THREADS", "1"}, {"TMPDIR", "/tmp"}},
                   .time_limit = seconds(100)});
  CAPTURE(result.err);
  CHECK_FALSE(result.timed_out);
  return result.out;
}

const Flags kTwo = {"-n", "2"};

// Longer than the second that Open MPI gives its ranks, and than the two seconds of a run that does
// not save.
TEST_CASE("mpirun: ranks get the signal, and the time to save") {
  const std::string out = run_script(R"sh(
    export SAVES=5
    printf 'steps = 3\ncheckpoint = "ck"\n' >saves
    printf 'steps = 3\ngrace = 40\n' >waits
    (start HUP --checkpoint ck && kill -s HUP $run && result) &
    (start INT --config saves && kill -s INT $run && result) &
    (SHELL_AROUND=yes start USR1 --checkpoint=ck && kill -s USR1 $run && result) &
    (SHELL_AROUND=yes start TERM --config=waits && kill -s TERM $run && result) &
    (start ALRM --grace 40 && kill -s ALRM $run && result) & # which ranks do not know
    (start no_checkpoint && kill -s TERM $run && result) &
    wait)sh",
                                     mpirun_command() + kTwo);
  for (const auto& [name, number, told] :
       std::vector<std::tuple<std::string, int, std::string>>{{"HUP", 1, "HUP"},
                                                              {"INT", 2, "INT"},
                                                              {"USR1", 10, "USR1"},
                                                              {"TERM", 15, "TERM"},
                                                              {"ALRM", 14, "TERM"}}) {
    CHECK_THAT(out, ContainsSubstring(concat(name, ": ", 128 + number, ", 2 saved 2 told ", told,
                                             ", error: ended by signal ", number, " (SIG", name,
                                             "), 0 files\n")));
  }
  CHECK_THAT(out,
             ContainsSubstring("no_checkpoint: 143, ") &&
                 !ContainsSubstring("saved, error: ended by signal 15 (SIGTERM), 0 files\nno"));
}

TEST_CASE("mpirun: a scheduler may tell all processes of a job, or mpirun only") {
  const std::string out = run_script(R"sh(
    export SAVES=3
    (start all --checkpoint ck && kill -s TERM $run $(pgrep --session $(session)) && result) &
    (start inner --checkpoint ck && kill -s TERM $(session) && result) &
    (start again --checkpoint ck && { kill -s TERM $run && kill -s TERM $run; } && result) &
    wait)sh",
                                     mpirun_command() + kTwo);
  const std::string saved =
      ": 143, 2 saved 2 told TERM, error: ended by signal 15 (SIGTERM), 0 files\n";
  CHECK_THAT(out, ContainsSubstring("all" + saved));
  CHECK_THAT(out, ContainsSubstring("inner" + saved));
  CHECK_THAT(out, ContainsSubstring("again" + saved));  // `timeout` sends it twice
}

TEST_CASE("mpirun: a second signal, or Ctrl-\\, ends a run that saves") {
  const std::string out = run_script(R"sh(
    export SAVES=1000
    (start second --grace 1000 && kill -s TERM $run && sleep 2 && kill -s INT $run && result) &
    (start QUIT --grace 1000 && kill -s QUIT $run && result) &
    wait)sh",
                                     mpirun_command() + kTwo);
  CHECK_THAT(out, ContainsSubstring("second: 143, ") && ContainsSubstring("QUIT: 131, ") &&
                      !ContainsSubstring("saved"));
}

TEST_CASE("mpirun: one signal ends what is stopped, and what takes no notice") {
  const Scratch folder;
  const std::string deaf =
      "#!/bin/bash\ntrap '' HUP INT TERM USR1\necho begin\nwhile :; do sleep 0.1; done\n";
  fs::permissions(folder.write("mpirun", deaf), fs::perms::owner_all);
  const std::string out = run_script(concat(R"sh(
    export SAVES=0
    (start mpirun && kill -s STOP $(session) && kill -s TERM $run && result) &
    (start ranks && pkill -STOP --parent $(session) && kill -s TERM $run && result) &
    (start session --checkpoint ck && pkill -STOP --session $(session) && kill -s USR1 $run && result) &
    PATH=)sh",
                                            folder.path().string(), R"sh(:$PATH
    (RANKS=1 start deaf --checkpoint ck && kill -s TERM $run && result) &
    wait)sh"),
                                     mpirun_command() + kTwo);
  for (const std::string name : {"mpirun: 143", "ranks: 143", "session: 138", "deaf: 143"}) {
    CHECK_THAT(out, ContainsSubstring(name + ", "));
  }
  CHECK_THAT(out, !ContainsSubstring(" 1 files") && !ContainsSubstring("itself"));
}

TEST_CASE("mpirun: ranks of other hosts are told, too, where none is on this one") {
  if (!clusters_are_possible()) return;
  const Cluster cluster(2);
  const std::string out = run_script(R"sh(
    export SAVES=4
    (start remote --checkpoint ck && kill -s USR1 $run && result) &
    (SAVES=1000 start ends && kill -s TERM $run && result) &
    wait)sh",
                                     mpirun_command() + Flags{"-n", "2", "--hosts", "node1,node2"},
                                     cluster_command({"exec"}));
  CHECK_THAT(out, ContainsSubstring("remote: 138, 2 saved 2 told USR1, error: ended by signal 10 "
                                    "(SIGUSR1), 0 files\n") &&
                      ContainsSubstring("ends: 143, "));
  cluster.check_clean();
}

}  // namespace
}  // namespace ladder
