#include "common/io/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "common/io/descriptor.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Throws Error, with what the system says, if a call has failed.
void require(bool is_done, const char* call) {
  if (is_done) return;
  throw Error(concat("no other program can be run: ", call, ": ", std::strerror(errno)));
}

// Blocks the signals that are passed on while it lives, so that they can be read from a descriptor.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&blocked_);
    for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
      struct sigaction action;
      sigaction(signal, nullptr, &action);
      // One that is ignored, as under nohup, would be read all the same. (A shell has SIGINT
      // ignored in what it starts in the background, where it means only that no terminal's key
      // ends it.)
      if (action.sa_handler != SIG_IGN || signal == SIGINT) sigaddset(&blocked_, signal);
    }
    sigprocmask(SIG_BLOCK, &blocked_, &before_);
    arrived_ = Descriptor(signalfd(-1, &blocked_, SFD_CLOEXEC));
    require(arrived_.is_open(), "signalfd");
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }
  int descriptor() const { return arrived_.number(); }

 private:
  sigset_t blocked_, before_;
  Descriptor arrived_;
};

// Becomes the program; runs in the child. Returns only if that fails, and errno says why.
void become(const std::vector<std::string>& argv, int error_pipe, const sigset_t& signals,
            pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || dup2(error_pipe, STDERR_FILENO) < 0) return;
  if (getppid() != parent) _exit(1);  // it was killed before it could be noticed
  for (const int signal : {SIGPIPE, SIGINT}) std::signal(signal, SIG_DFL);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

// Passes text on line by line.
class Lines {
 public:
  explicit Lines(const std::function<bool(const std::string&)>& keeps) : keeps_(keeps) {}
  ~Lines() { std::cerr << text_ << std::flush; }  // an unfinished line

  void add(std::string_view text) {
    text_ += text;
    size_t begin = 0;
    for (size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = text_.substr(begin, end - begin);
      if (!keeps_(line)) std::cerr << line + "\n" << std::flush;
    }
    text_.erase(0, begin);
  }

 private:
  const std::function<bool(const std::string&)>& keeps_;
  std::string text_;
};

// Reads the child's standard error to its end and passes signals on. Returns the first signal.
int attend(pid_t child, int error_pipe, int signals, Lines& lines) {
  std::array<pollfd, 2> sources = {pollfd{error_pipe, POLLIN, 0}, pollfd{signals, POLLIN, 0}};
  std::array<char, 4096> buffer;
  int first_signal = 0;
  while (true) {
    if (poll(sources.data(), sources.size(), -1) < 0) continue;  // interrupted
    if (sources[1].revents != 0) {
      signalfd_siginfo signal;
      if (read(signals, &signal, sizeof signal) == sizeof signal) {
        const auto number = static_cast<int>(signal.ssi_signo);
        if (first_signal == 0) first_signal = number;
        if (signal.ssi_code <= 0) kill(child, number);  // a process has sent it, not the kernel
      }
    }
    if (sources[0].revents == 0) continue;
    const ssize_t count = read(error_pipe, buffer.data(), buffer.size());
    if (count == 0) return first_signal;
    if (count > 0) lines.add({buffer.data(), static_cast<size_t>(count)});
  }
}

int exit_status(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) require(errno == EINTR, "waitpid");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& argv,
                   const std::function<bool(const std::string& line)>& keeps) {
  const BlockedSignals signals;
  int ends[2], starts[2];  // the child's standard error; errno if it cannot start
  require(pipe2(ends, O_CLOEXEC) == 0 && pipe2(starts, O_CLOEXEC) == 0, "pipe2");
  Descriptor reads(ends[0]), writes(ends[1]), started(starts[0]), fails(starts[1]);
  const pid_t parent = getpid(), child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    become(argv, writes.number(), signals.before(), parent);
    const int error = errno;
    _exit(fails.write_all(std::as_bytes(std::span(&error, 1))) ? 127 : 126);
  }
  writes = Descriptor();
  fails = Descriptor();
  int error = 0;
  if (read(started.number(), &error, sizeof error) == sizeof error) {
    exit_status(child);
    throw UserError(concat(argv[0], ": cannot be started: ", std::strerror(error)));
  }
  ChildEnd end;
  {
    Lines lines(keeps);
    end.signal = attend(child, reads.number(), signals.descriptor(), lines);
  }
  end.status = exit_status(child);
  return end;
}

}  // namespace ladder
