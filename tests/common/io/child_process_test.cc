// A child process: what it says, how it ends, and that it does not outlive its parent.
#include "common/io/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

ChildEnd run_script(const std::string& script, std::vector<std::string>* lines = nullptr) {
  return run_child({"sh", "-c", script}, [&](const std::string& line) {
    if (lines != nullptr) lines->push_back(line);
    return true;
  });
}

TEST_CASE("the exit status is the child's, or tells the signal that ended it") {
  CHECK(run_script("exit 0").status == 0);
  CHECK(run_script("exit 3").status == 3);
  const ChildEnd killed = run_script("kill -KILL $$");
  CHECK(killed.status == 128 + SIGKILL);
  CHECK(killed.signal == 0);  // this process received none
}

TEST_CASE("each line of standard error is seen once, whole") {
  std::vector<std::string> lines;
  run_script("printf 'one\\ntw' >&2; sleep 0.05; printf 'o\\n\\nthree\\n' >&2", &lines);
  CHECK(lines == std::vector<std::string>{"one", "two", "", "three"});
}

TEST_CASE("a program that cannot be started is an error that names it") {
  CHECK_THROWS_WITH(run_child({"no/such/program"}, [](const std::string&) { return false; }),
                    ContainsSubstring("no/such/program: cannot be started: No such file"));
}

// The script's parent is this process.
TEST_CASE("each signal ends the child and not this process, and can end this process afterwards") {
  const int signal = GENERATE(SIGTERM, SIGUSR1, SIGHUP, SIGINT);
  const std::string number = std::to_string(signal);
  std::vector<std::string> lines;
  const ChildEnd end = run_script("trap 'echo told >&2; kill -TERM $PPID' " + number +
                                      "; trap 'echo again >&2; exit 5' TERM; kill -" + number +
                                      " $PPID; while :; do sleep 0.01; done",
                                  &lines);
  if (signal != SIGTERM) {  // the second signal is passed on, too, and the first one counts
    CHECK(lines == std::vector<std::string>{"told", "again"});
  }
  CHECK(end.signal == signal);
  CHECK(end.status == 5);
  sigset_t blocked;
  REQUIRE(sigprocmask(SIG_BLOCK, nullptr, &blocked) == 0);
  CHECK(sigismember(&blocked, signal) == 0);
}

TEST_CASE("a signal that is ignored stays ignored") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  const ChildEnd end = run_script("kill -HUP $PPID; sleep 0.05");
  std::signal(SIGHUP, before);
  CHECK(end.signal == 0);
  CHECK(end.status == 0);
}

TEST_CASE("the child is told to end when this process is killed") {
  const TestFolder folder;
  const std::string begun = folder / "begun", told = folder / "told";
  const std::string script =
      "trap 'touch " + told + "; exit' TERM; touch " + begun + "; while :; do sleep 0.01; done";
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    run_script(script);
    _exit(0);
  }
  const auto wait_for = [](const std::string& file) {
    for (int i = 0; i < 6000 && !std::filesystem::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return std::filesystem::exists(file);
  };
  CHECK(wait_for(begun));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK(wait_for(told));
}

}  // namespace
}  // namespace ladder
