// Runs another program as a part of this one: both end together.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ladder {

struct ChildEnd {
  int status = 0;  // the exit status; 128 + the number of the signal if one ended the program
  int signal = 0;  // SIGINT or SIGTERM if this process has received it meanwhile, else 0
};

// Runs argv[0], which is looked up in PATH, and returns when it has ended and nobody has its
// standard error open any more. Its standard output is this process's. Each line of its standard
// error is given to `keeps`, and goes to this process's unless `keeps` returns true.
//
// SIGINT and SIGTERM do not end this process meanwhile: the program gets SIGTERM instead. (If a
// terminal has sent the signal, the program has got it already.) If this process is killed, the
// program gets SIGTERM, too. Throws UserError if there is no such program, and
// Error if the system refuses a process. REQUIRES: this process
// has no other threads that take signals.
ChildEnd run_child(const std::vector<std::string>& argv,
                   const std::function<bool(const std::string& line)>& keeps);

}  // namespace ladder
