#include "tools/programs/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// Both ends are closed on exec, and when the object goes.
struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    int ends[2];
    check(pipe2(ends, O_CLOEXEC) == 0, "pipe2 failed");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    close_write_end();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_write_end() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

// What the child does between fork and exec. Returns only when that failed; errno says why.
void become(const std::vector<std::string>& argv, const ProcessOptions& options, const Pipe& out,
            const Pipe& err) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // so that it does not outlive a caller that is killed
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, 0) < 0) return;
  if (dup2(out.write_end, 1) < 0 || dup2(err.write_end, 2) < 0) return;
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) return;
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.file_size_limit) {
    // Ignored, the signal stays ignored through exec, and write() reports the error instead.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {*options.file_size_limit, *options.file_size_limit};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  }
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

// Reads both streams, whichever has something, until both are closed. Returns false if `deadline`
// came first, or if `is_over` said so. A pipe that nobody reads fills up and stops its writer, so
// neither may wait for the other.
bool drain(const Pipe& out, const Pipe& err, Time deadline, const std::function<bool()>& is_over,
           ProcessResult& result) {
  constexpr int64_t kPause = 20;  // ms, after which is_over() is asked again
  std::array<pollfd, 2> streams = {pollfd{out.read_end, POLLIN, 0},
                                   pollfd{err.read_end, POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&result.out, &result.err};
  std::vector<char> buffer(1 << 16);
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || is_over()) return false;
    const auto pause = static_cast<int>(std::min<int64_t>(left, kPause));
    if (poll(streams.data(), streams.size(), pause) < 0) {
      if (errno == EINTR) continue;
      fail(concat("poll: ", std::strerror(errno)));
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd < 0 || streams[i].revents == 0) continue;
      const ssize_t got = read(streams[i].fd, buffer.data(), buffer.size());
      if (got > 0) texts[i]->append(buffer.data(), static_cast<size_t>(got));
      if (got == 0) streams[i].fd = -1;  // poll skips it from now on
    }
  }
  return true;
}

// Returns whether the child has ended. Its number stays taken until exit_status() is called.
bool has_ended(pid_t child) {
  siginfo_t info = {};
  const int failed = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
  return failed != 0 || info.si_pid == child;
}

// Waits until the child has ended. Returns false if `deadline` came first, or if `is_over` said so.
bool await_end(pid_t child, Time deadline, const std::function<bool()>& is_over) {
  while (!has_ended(child)) {
    if (Clock::now() >= deadline || is_over()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

int exit_status(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail(concat("waitpid: ", std::strerror(errno)));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// 0, or the error for which the child could not start: its end of `started` closes on exec.
int start_error(Pipe& started) {
  started.close_write_end();
  int error = 0;
  const ssize_t got = read(started.read_end, &error, sizeof error);
  return got == sizeof error ? error : 0;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  check(!argv.empty(), "run_process: no program");
  Pipe out, err, started;
  const Time deadline = Clock::now() + options.time_limit;
  const pid_t child = fork();
  if (child < 0) fail(concat("fork: ", std::strerror(errno)));
  if (child == 0) {
    become(argv, options, out, err);
    const int error = errno;
    if (write(started.write_end, &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  setpgid(child, child);  // in both processes, so that neither has to wait for the other
  out.close_write_end();
  err.close_write_end();
  const int error = start_error(started);
  ProcessResult result;
  const auto is_stopped = [&] { return options.stop != nullptr && *options.stop != 0; };
  // A program may close both its streams long before it ends.
  if (error == 0 &&
      !(drain(out, err, deadline, is_stopped, result) && await_end(child, deadline, is_stopped))) {
    result.timed_out = true;
    kill(child, SIGTERM);
    const Time last = Clock::now() + options.grace;
    drain(
        out, err, last, [&] { return has_ended(child); }, result);
    await_end(child, last, [] { return false; });
    kill(-child, SIGKILL);
  }
  result.status = exit_status(child);
  if (error != 0) fail(concat("cannot run ", argv[0], ": ", std::strerror(error)));
  return result;
}

}  // namespace ladder
