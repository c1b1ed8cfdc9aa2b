// Runs another program as a part of this one: both end together.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ladder {

struct ChildEnd {
  int status = 0;  // the exit status; 128 + the number of the signal if one ended the program
  int signal = 0;  // the first signal that this process has received meanwhile, of those below
};

// Runs argv[0], which is looked up in PATH, and returns when it has ended and nobody has its
// standard error open any more. Its standard output is this process's. Each line of its standard
// error is given to `keeps`, and goes to this process's unless `keeps` returns true.
//
// While the program runs, SIGTERM, SIGUSR1, SIGHUP and SIGINT do not end this process. Each one
// that it receives is sent on to the program, unless a terminal sent it, which signals both. A
// signal that was ignored before the call, as SIGHUP is under nohup, stays ignored; SIGINT never
// does. If this process is killed, the program gets SIGTERM. Throws UserError if there is no such
// program, and Error if the system refuses a process. REQUIRES: this process has no other threads
// that take signals.
ChildEnd run_child(const std::vector<std::string>& argv,
                   const std::function<bool(const std::string& line)>& keeps);

}  // namespace ladder
