#include "common/io/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "kernels/runtime/check.h"

namespace ladder {

void prepare_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest number that is free.
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDWR) != stream) {
      throw Error(concat("/dev/null cannot be opened: ", std::strerror(errno)));
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void print(std::string_view text) {
  errno = 0;
  std::cout << text << std::flush;
  if (std::cout) return;
  throw Error(concat("standard output could not be written",
                     errno != 0 ? concat(": ", std::strerror(errno)) : std::string()));
}

}  // namespace ladder
