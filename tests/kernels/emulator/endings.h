// Tests of faults, which end the process: each in a child, whose last words are read.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/catch.h"

namespace ladder {

struct Ending {
  std::string words;  // written to stderr
  int status;         // of waitpid
};

// How a child process ends that calls f().
template <class F>
Ending ending_of(F f) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    // What Catch does with a fault would hide what the system does.
    signal(SIGSEGV, SIG_DFL);
    f();
    _exit(0);
  }
  close(ends[1]);
  Ending ending{};
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    ending.words.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  REQUIRE(waitpid(child, &ending.status, 0) == child);
  return ending;
}

inline bool died_of_fault(const Ending& ending) {
  return WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGSEGV;
}

}  // namespace ladder
