#include "tools/programs/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

ProcessResult run_shell(const std::string& script, const ProcessOptions& options = {}) {
  return run_process({"sh", "-c", script}, options);
}

TEST_CASE("a process's status and both its streams come back") {
  const ProcessResult result = run_shell("echo good; echo bad >&2; exit 7");
  CHECK(result.status == 7);
  CHECK(result.out == "good\n");
  CHECK(result.err == "bad\n");
  CHECK_FALSE(result.timed_out);
}

TEST_CASE("a signal's end is told by 128 + its number") {
  CHECK(run_shell("kill -TERM $$").status == 128 + 15);
}

TEST_CASE("arguments pass untouched and stdin is empty") {
  CHECK(run_process({"printf", "%s|", "a b", "", "*"}).out == "a b||*|");
  CHECK(run_process({"cat"}).out.empty());
}

TEST_CASE("more output than two pipes hold does not stop the process") {
  // 4 MB on each stream, one after the other; a pipe holds 64 KB.
  const ProcessResult result = run_shell(
      "head -c 4000000 /dev/zero; head -c 4000000 /dev/zero >&2; head -c 1000000 /dev/zero");
  CHECK(result.status == 0);
  CHECK(result.out.size() == 5'000'000);
  CHECK(result.err.size() == 4'000'000);
}

TEST_CASE("folder and environment are the caller's choice") {
  const Scratch scratch;
  const ProcessResult result =
      run_shell("pwd; echo $LADDER_TEST; test -n \"$PATH\"",
                {.folder = scratch.path(), .environment = {{"LADDER_TEST", "a b"}}});
  CHECK(result.status == 0);
  CHECK(result.out == std::filesystem::canonical(scratch.path()).string() + "\na b\n");
}

TEST_CASE("the time limit ends a process with all its children") {
  // The child in the background keeps the pipes open: were it not killed, this would never return.
  const ProcessResult result = run_shell("echo begun; sleep 3600 & sleep 3600",
                                         {.time_limit = std::chrono::milliseconds(300)});
  CHECK(result.timed_out);
  CHECK(result.status == 128 + 15);
}

TEST_CASE("a process past its limit may end what it has started elsewhere, and remove its files") {
  const Scratch scratch;
  // The child leaves the process group, as the ranks of an mpirun do.
  const ProcessResult result = run_shell(
      "trap 'kill $child; wait $child; rm file; exit 7' TERM; touch file; setsid sleep 3600 & "
      "child=$!; "
      "echo $child; wait",
      {.folder = scratch.path(), .time_limit = std::chrono::milliseconds(300)});
  CHECK(result.timed_out);
  CHECK(result.status == 7);
  CHECK(scratch.files().empty());
  CHECK(kill(std::stoi(result.out), 0) != 0);
}

TEST_CASE("a process that does not end when it is asked to is killed") {
  const ProcessResult result = run_shell(
      "trap '' TERM; sleep 3600 & sleep 3600",
      {.time_limit = std::chrono::milliseconds(300), .grace = std::chrono::milliseconds(200)});
  CHECK(result.timed_out);
  CHECK(result.status == 128 + 9);
}

TEST_CASE("the time limit holds for a process that has closed its streams, too") {
  const std::string script = "exec >&- 2>&-; sleep 60";
  CHECK(run_shell(script, {.time_limit = std::chrono::milliseconds(200)}).timed_out);
  CHECK(run_shell("exec >&- 2>&-; sleep 0.1; exit 7").status == 7);
  const ProcessResult result = run_shell(
      "trap '' TERM; " + script,
      {.time_limit = std::chrono::milliseconds(200), .grace = std::chrono::milliseconds(200)});
  CHECK(result.status == 128 + 9);
}

TEST_CASE("a caller that is told to end ends what it runs") {
  const volatile std::sig_atomic_t stop = 1;
  CHECK(run_shell("sleep 3600", {.stop = &stop}).timed_out);
}

TEST_CASE("a process ends with a caller that is killed") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t caller = fork();
  if (caller == 0) {
    // What has the pipe open is the caller, and then the process.
    run_shell(concat("echo >&", ends[1], "; exec sleep 3600"));
    _exit(0);
  }
  close(ends[1]);
  char begun = 0;
  REQUIRE(read(ends[0], &begun, 1) == 1);
  kill(caller, SIGKILL);
  CHECK(waitpid(caller, nullptr, 0) == caller);
  CHECK(read(ends[0], &begun, 1) == 0);
  close(ends[0]);
}

TEST_CASE("the file size limit makes writing fail as a full disk does") {
  const Scratch scratch;
  const ProcessResult result = run_shell("head -c 2000 /dev/zero > file",
                                         {.folder = scratch.path(), .file_size_limit = 1000});
  CHECK(result.status == 1);
  CHECK(std::filesystem::file_size(scratch.path() / "file") == 1000);
}

TEST_CASE("a program that cannot be started is an error that names it") {
  CHECK_THROWS_WITH(run_process({"no-such-program"}),
                    ContainsSubstring("no-such-program") && ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(run_process({"true"}, {.folder = "no/such/folder"}),
                    ContainsSubstring("No such file"));
}

}  // namespace
}  // namespace ladder
