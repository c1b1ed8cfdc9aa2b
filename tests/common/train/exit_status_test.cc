// How a program ends that cannot go on: its status and what it says.
#include "common/train/trainer/guarded.h"

#include <iostream>
#include <new>
#include <sstream>

#include "tests/catch.h"

namespace ladder {
namespace {

// The exit status of a program whose body is this, and what it says on standard error.
std::pair<int, std::string> end_of(const std::function<void(Job&)>& body) {
  std::ostringstream text;
  std::streambuf* const terminal = std::cerr.rdbuf(text.rdbuf());
  const int status =
      run_guarded({.name = "00_test", .description = "Tests ends.", .is_distributed = false}, body);
  std::cerr.rdbuf(terminal);
  return {status, text.str()};
}

TEST_CASE("a program that has done its work says nothing") {
  CHECK(end_of([](Job&) {}) == std::pair(0, std::string()));
}

TEST_CASE("the user's mistake is one line, whatever is in it") {
  CHECK(end_of([](Job&) { throw UserError("--data a\x1b[31m\nb\u202e: is empty"); }) ==
        std::pair(2, std::string("error: --data a\\x1b[31m\\nb\\xe2\\x80\\xae: is empty\n")));
}

TEST_CASE("once a run is under way, nothing is the user's mistake") {
  CHECK(end_of([](Job&) { on_the_way([] { throw UserError("--dump d: is gone"); }); }) ==
        std::pair(1, std::string("error: --dump d: is gone\n")));
}

TEST_CASE("other errors may have lines, and do not command the terminal") {
  CHECK(end_of([](Job&) { throw Error("out of memory\n  a table\x1b[31m"); }) ==
        std::pair(1, std::string("error: out of memory\n  a table?[31m\n")));
}

TEST_CASE("a failed allocation says more than its name") {
  const auto [status, text] = end_of([](Job&) { throw std::bad_alloc(); });
  CHECK(status == 1);
  CHECK_THAT(text, StartsWith("error: the system refused memory") &&
                       ContainsSubstring("ulimit -v") && !ContainsSubstring("bad_alloc"));
}

}  // namespace
}  // namespace ladder
