#include "common/comm/worker.h"

#include <sys/resource.h>

#include <fstream>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("a thread that the system refuses is an error that says what limits threads") {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit tight = before;
  tight.rlim_cur = pages * 4096 + (size_t{1} << 20);  // a stack needs more
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  std::string message;
  try {
    const Worker worker(DeviceType::cpu);
  } catch (const Error& error) {
    message = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK_THAT(message, ContainsSubstring("no thread could be started") &&
                          ContainsSubstring("ulimit -u") && ContainsSubstring("ulimit -v"));
  CHECK_NOTHROW(Worker(DeviceType::cpu));
}

}  // namespace
}  // namespace ladder
