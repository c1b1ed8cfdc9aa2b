// Runs that a signal ends: all ranks save after the same step, and what resumes has the bits of a
// run that never stopped.
#include <algorithm>
#include <array>
#include <csignal>
#include <random>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/sample.h"
#include "tests/system/checkpoints.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const Flags kRun = {"--model",
                    "nano",
                    "--threads",
                    "1",
                    "--sample",
                    "0",
                    "--evaluate-every",
                    "3",
                    "--evaluate-batches",
                    "1",
                    "--global-batch-size",
                    "12"};

// The start of a shell script that runs "$@" in the background. `ranks` are the process numbers of
// its ranks. (A shell has SIGINT ignored in what it starts in the background.)
constexpr const char* kScript = R"sh(
    env --default-signal "$@" >out 2>err & run=$!
    ranks() { pgrep -f -- "^[^ ]*/lessons/.*$FOLDER"; }
    lines() { cat metrics 2>/dev/null | wc -l; }
    until (($(lines) >= 2)); do sleep 0.01; kill -0 $run || exit 99; done
)sh";

struct Ended {
  ProcessResult result;
  std::string out, err;
};

// Runs this program on several ranks (1: without mpirun), and the script meanwhile.
Ended run_script(const Scratch& folder, size_t num_ranks, const std::string& lesson,
                 const Flags& flags, const std::string& script) {
  const Flags program =
      Flags{lesson_path(lesson)} + kRun + flags +
      Flags{"--metrics", "metrics", "--checkpoint", (folder.path() / "c").string()};
  const Flags argv =
      num_ranks == 1 ? program : mpirun_command() + Flags{"-n", concat(num_ranks)} + program;
  Ended ended;
  ended.result = run_process(
      Flags{"bash", "-c", kScript + script, "sh"} + argv,
      {.folder = folder.path(), .environment = {{"TMPDIR", "/tmp"}, {"FOLDER", folder.path()}}});
  ended.out = read_text(folder.path() / "out");
  ended.err = read_text(folder.path() / "err");
  CHECK_FALSE(ended.result.timed_out);
  return ended;
}

// The step that the last line says was saved.
int saved_step(const std::string& out) {
  const std::string saved = "\nsaved step ";
  const size_t at = out.rfind(saved);
  REQUIRE(at != out.npos);
  return std::stoi(out.substr(at + saved.size()));
}

TEST_CASE("signals: a run is saved, and resumes with the bits of one that never stopped") {
  const std::vector<std::pair<size_t, std::string>> lessons = {{1, "01_single_gpu"},
                                                               {3, "05_zero3"},
                                                               {2, "08_pipeline_parallel"},
                                                               {2, "10_mixed_precision"},
                                                               {2, "21_hybrid_shard"}};
  testing::for_random_cases(2, [&](size_t number) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(number));
    const auto& [num_ranks, lesson] = lessons[number % lessons.size()];
    const int signal = std::array{SIGTERM, SIGUSR1, SIGHUP, SIGINT}[random() % 4];
    Flags flags = {"--dump", "dumps", "--steps", "200000"};
    if (random() % 2 == 0) flags = flags + Flags{"--checkpoint-async"};
    if (random() % 2 == 0) flags = flags + Flags{"--checkpoint-every", "2", "--keep", "2"};
    const std::string which = random() % 2 == 0 ? "| head -n 1" : "";  // one rank, or all
    const Scratch folder;
    CAPTURE(number, num_ranks, lesson, signal, flags, which);
    const Ended ended = run_script(folder, num_ranks, lesson, flags,
                                   concat("sleep 0.0", 1 + random() % 9, "; kill -", signal,
                                          " $(ranks ", which, "); wait $run"));
    CAPTURE(ended.out, ended.err);
    CHECK(ended.result.status == 128 + signal);
    const int step = saved_step(ended.out);
    CHECK(ended.out.find("\nsample:") == ended.out.npos);
    CHECK(fs::exists(folder.path() / checkpoint(step)));
    CHECK_FALSE(fs::exists(folder.path() / "dumps" / dump(step + 1)));
    const std::string metrics = read_text(folder.path() / "metrics");
    CHECK(std::ranges::count(metrics, '\n') == step);
    // As it goes on, and as it does from the beginning.
    const std::string two_more = concat("until (($(lines) >= ", step + 2,
                                        ")); do sleep 0.01; done; kill -TERM $(ranks); wait $run");
    fs::copy(folder.path() / "dumps" / dump(step), folder.path() / "last");
    const Ended more = run_script(folder, num_ranks, lesson, flags + Flags{"--resume"}, two_more);
    CHECK(more.result.status == 143);
    const std::string resumed = bytes_of(folder.path() / "dumps" / dump(step + 2));
    fs::remove_all(folder.path() / "c");
    fs::remove(folder.path() / "metrics");
    run_script(folder, num_ranks, lesson, flags, two_more);
    CHECK(bytes_of(folder.path() / "dumps" / dump(step)) == bytes_of(folder.path() / "last"));
    CHECK(bytes_of(folder.path() / "dumps" / dump(step + 2)) == resumed);
  });
}

TEST_CASE("signals: force, after the grace or by a second signal") {
  const Scratch folder;
  // The other rank stands still, so no step ends.
  const std::string stop = "kill -STOP $(ranks | tail -n 1); first=$(ranks | head -n 1); ";
  const std::string is_over =
      "; for i in {1..600}; do kill -0 $first 2>/dev/null || break; sleep 0.05; done; kill -0 "
      "$first && echo alive; kill -KILL $(ranks); wait $run; echo $?";
  const auto run = [&](const std::string& grace, const std::string& script) {
    fs::remove_all(folder.path() / "c");
    fs::remove(folder.path() / "metrics");
    return run_script(folder, 2, "02_ddp", {"--steps", "1000000", "--grace", grace}, script)
        .result.out;
  };
  CHECK(run("1", stop + "kill -TERM $first" + is_over).starts_with("1"));
  CHECK(run("1000",
            stop + "kill -USR1 $first; sleep 0.7; kill -0 $first && kill -INT $first" + is_over)
            .starts_with("1"));
}

TEST_CASE("signals: without --checkpoint a run ends after the step; under nohup not by SIGHUP") {
  const Scratch folder;
  const bool is_ignored = GENERATE(false, true);
  const std::string before = is_ignored ? "trap '' HUP; " : "";
  const std::string after = is_ignored ? "sleep 0.3; kill -TERM $!; " : "";
  const ProcessResult result =
      run_process(Flags{"bash", "-mc",
                        before + "\"$@\" & until [ -s m ]; do sleep 0.01; done; kill -HUP $!; " +
                            after + "wait $!",
                        "sh", lesson_path("01_single_gpu")} +
                      kRun + Flags{"--steps", "1000000", "--metrics", "m", "--export", "e"},
                  {.folder = folder.path()});
  CHECK(result.status == 128 + (is_ignored ? SIGTERM : SIGHUP));
  CHECK_THAT(result.out, ContainsSubstring("\nended after step "));
  CHECK_FALSE(fs::exists(folder.path() / "e"));
}

// Whenever it stands still: in MPI's start, before ranks know each other, or after that.
TEST_CASE("a rank that stands still while ranks start ends all, within the time limit") {
  const Scratch folder;
  testing::for_random_cases(2, [&](size_t number) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(number));
    const std::string lesson = random() % 2 == 0 ? "15_expert_parallel" : "21_hybrid_shard";
    const std::string script =
        concat("\"$@\" & until pid=$(pgrep -f -- \"^[^ ]*/lessons/.*$FOLDER\" | sed -n ",
               1 + random() % 2, "p) && [ -n \"$pid\" ]; do sleep 0.01; done; sleep 0.",
               random() % 10, "; kill -STOP $pid; wait $!");
    const Flags argv = mpirun_command() + Flags{"-n", "2", lesson_path(lesson)} + kRun +
                       Flags{"--steps", "1000000",   "--collective-timeout",
                             "1",       "--metrics", (folder.path() / "m").string()};
    const ProcessResult result =
        run_process(Flags{"bash", "-c", script, "sh"} + argv,
                    {.environment = {{"TMPDIR", "/tmp"}, {"FOLDER", folder.path()}}});
    CAPTURE(number, script, result.out, result.err);
    CHECK_FALSE(result.timed_out);
    CHECK(result.status == 1);
    CHECK_THAT(result.err, StartsWith("error: "));
    CHECK(result.err.find("\nerror: ") == result.err.npos);
  });
}

// oneDNN's products keep values below the end of the stack, where a handler without a stack of its
// own writes.
TEST_CASE("signals: a handler disturbs no product that is being computed") {
  const Scratch folder;
  const Flags argv = {lesson_path("01_single_gpu"),
                      "--model",
                      "nano",
                      "--threads",
                      "1",
                      "--sample",
                      "0",
                      "--evaluate-every",
                      "0",
                      "--global-batch-size",
                      "4096",
                      "--micro-batch-size",
                      "16",
                      "--grace",
                      "60",
                      "--metrics",
                      "m"};
  const std::string script =
      "\"$@\" & until [ -s m ]; do sleep 0.01; done; for i in {1..300}; do kill -USR1 $!; done; "
      "wait $!";
  const ProcessResult result =
      run_process(Flags{"bash", "-c", script, "sh"} + argv, {.folder = folder.path()});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 128 + SIGUSR1);
  CHECK_THAT(result.out, ContainsSubstring("\nended after step "));
}

TEST_CASE("signals: --checkpoint-every takes a time") {
  const Scratch folder;
  const Ended ended = run_script(
      folder, 3, "05_zero3", {"--steps", "1000000", "--checkpoint-every", "1s"},
      "until (($(ls c | grep -c step_) >= 2)); do sleep 0.05; done; kill -TERM $run; wait $run");
  CAPTURE(ended.out, ended.err);
  CHECK(ended.result.status == 128 + SIGTERM);
  const std::string lesson = lesson_path("01_single_gpu");
  for (const std::string time :
       {"0s", "-1min", "1.5h", "10 min", "min", "1d", "10m", "99999999h"}) {
    CAPTURE(time);
    check_user_error(run_process({lesson, "--checkpoint", "c", "--checkpoint-every=" + time}),
                     {"--checkpoint-every", "'" + time + "'", "10min"});
  }
}

}  // namespace
}  // namespace ladder
