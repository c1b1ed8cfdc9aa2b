#include "kernels/runtime/work.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include "tests/catch.h"

namespace ladder {
namespace {

struct Nothing final : Work::State {
  void wait(Stream&) override {}
};

Work started() { return Work(std::make_shared<Nothing>()); }

// What a process says on standard error that does this and is ended by an abort.
std::string last_words_of(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char c;
  while (read(ends[0], &c, 1) == 1) said += c;
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGABRT);
  return said;
}

TEST_CASE("a program ends that does not wait for what it has started, and says so") {
  CHECK(
      last_words_of([] {
        static_cast<void>(started());
      }).starts_with("error: a started operation (Work) was destroyed before it was waited for\n"));
  CHECK(last_words_of([] {
          Work work = started();
          work = started();
        }).starts_with("error: a started operation (Work) was overwritten before"));
}

TEST_CASE("what was waited for may be destroyed") {
  Stream stream(DeviceType::cpu);
  Work work = started();
  work.wait(stream);
  work = started();
  work.wait(stream);
  work.wait(stream);  // there is nothing to wait for
}

}  // namespace
}  // namespace ladder
