// Programs that are started with closed streams, and streams that take nothing.
#include "common/io/standard_streams.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <initializer_list>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// What `body` returns in a process of its own, whose streams it may close.
int status_of(const std::function<int()>& body) {
  std::fflush(stdout);  // of Catch2; else the child would print it, too
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("files do not get the numbers of closed streams") {
  for (const std::initializer_list<int> closed :
       {std::initializer_list<int>{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}}) {
    CHECK(status_of([&] {
            for (int stream : closed) close(stream);
            prepare_standard_streams();
            const bool takes = write(1, "", 0) == 0 && write(2, "", 0) == 0;
            return takes ? open("/dev/null", O_RDONLY) : 0;
          }) >= 3);
  }
}

TEST_CASE("open streams stay what they are") {
  CHECK(status_of([] {
          int ends[2];
          if (pipe(ends) != 0) return 1;
          dup2(ends[1], 1);
          prepare_standard_streams();
          print("text");
          char text[5] = {};
          return read(ends[0], text, 4) == 4 && std::string(text) == "text" ? 0 : 2;
        }) == 0);
}

// The message of the Error that print throws; "" if it throws none.
std::string print_fault() {
  try {
    print("text");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a standard output that takes nothing is an Error, not a signal") {
  CHECK(status_of([] {
          dup2(open("/dev/full", O_WRONLY), 1);
          prepare_standard_streams();
          return print_fault() == "standard output could not be written: No space left on device"
                     ? 0
                     : 1;
        }) == 0);
  CHECK(status_of([] {
          int ends[2];
          if (pipe(ends) != 0) return 1;
          dup2(ends[1], 1);
          close(ends[0]);
          prepare_standard_streams();
          return print_fault() == "standard output could not be written: Broken pipe" ? 0 : 2;
        }) == 0);
}

}  // namespace
}  // namespace ladder
