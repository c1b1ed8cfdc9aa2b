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
// SIGTERM, SIGUSR1, SIGHUP and SIGINT do not end this process meanwhile: the program gets the same
// signal instead, each time. (If a terminal has sent it, the program has got it already.) Those
// that are ignored, as under nohup, stay so, but for SIGINT. If this process is killed, the program
// gets SIGTERM. Throws UserError if there is no such program, and Error if the system refuses a
// process. REQUIRES: this process has no other threads that take signals.
ChildEnd run_child(const std::vector<std::string>& argv,
                   const std::function<bool(const std::string& line)>& keeps);

}  // namespace ladder
