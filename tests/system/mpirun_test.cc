// tools/mpirun: how it ends, and that nothing is left of it. Keys are pressed on a terminal of its
// own.
#include "tests/system/mpirun.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <thread>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tools/process/scratch.h"

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
  // Reads what appears until `text` is there, or the end. True if it is.
  bool shows(const std::string& text) {
    std::array<char, 4096> buffer;
    while (shown_.find(text) == std::string::npos) {
      const ssize_t count = read(terminal_, buffer.data(), buffer.size());
      if (count <= 0) return false;
      shown_.append(buffer.data(), static_cast<size_t>(count));
    }
    shown_.clear();
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
      OnTerminal run("\"$@\"; echo ended",
                     mpirun_command() + Flags{"-n", "2", lesson_path("02_ddp")} + kEndless,
                     temporary);
      REQUIRE(run.shows("step "));
      segments = "/dev/shm" / fs::directory_iterator(temporary)->path().filename();
      CHECK(fs::exists(segments));
      for (const char key : keys) {
        run.press(key);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      CHECK(run.shows("ended"));
    }
    CHECK(fs::is_empty(temporary));
    fs::remove_all(temporary);
    CHECK_FALSE(fs::exists(segments));
  }
}

TEST_CASE("mpirun: Ctrl-Z gives the terminal back, and the run goes on afterwards") {
  OnTerminal run("\"$@\"; echo stopped; fg; echo ended with $?",
                 mpirun_command() + Flags{"-n", "2", "sh", "-c", "echo begin; sleep 1"}, "/tmp");
  REQUIRE(run.shows("begin"));
  run.press('\x1a');
  CHECK(run.shows("stopped"));
  CHECK(run.shows("ended with 0"));
}

}  // namespace
}  // namespace ladder
