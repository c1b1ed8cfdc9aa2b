// The main program of a puzzle: tries the learner's function, and survives it.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// The exit status where all is right. It is not 0, with which a function that calls exit() might
// end.
inline constexpr int kRight = 42;
inline constexpr unsigned kMostSeconds = 3;  // a right function takes milliseconds

inline const Cases* running = nullptr;
inline const char* puzzle_title = "";

// Says in which case the function crashed or did not end. It may only call what a handler may.
[[noreturn]] inline void stop(int signal) {
  const auto say = [](const std::string& words) {
    if (write(STDOUT_FILENO, words.data(), words.size()) < 0) _exit(1);
  };
  say(puzzle_title);
  say(": wrong for ");
  say(running->asked());
  say(signal == SIGALRM   ? "\nyour function does not end\n"
      : signal == SIGFPE  ? "\nyour function divides by zero\n"
      : signal == SIGABRT ? "\nyour function aborts, as it does with an index out of range\n"
                          : "\nyour function crashes, as it does with an index out of range, or "
                            "where it calls itself for ever\n");
  _exit(1);
}

template <class Function>
int run(const char* title, void (*check)(Cases&, Function), Function function) {
  setvbuf(stdout, nullptr, _IOLBF, 0);  // what the function has printed is not lost
  static char stack[1 << 16];           // for the handler, where the function has used up its own
  const stack_t other = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof(stack)};
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = stop;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGALRM, SIGFPE, SIGABRT, SIGSEGV, SIGBUS, SIGILL}) {
    sigaction(signal, &action, nullptr);
  }
  Cases cases;
  running = &cases;
  puzzle_title = title;
  alarm(kMostSeconds);
  const Verdict verdict = judge(cases, check, function);
  alarm(0);
  std::cout << title << ": " << verdict.text << std::flush;
  return verdict.is_right ? kRight : 1;
}

}  // namespace ladder::puzzles
