#include "common/comm/bell.h"

#include <thread>

#include "tests/catch.h"

namespace ladder::testing {
namespace {

// Two threads in turn. A ring that somebody misses, or that wakes nobody, hangs the test.
TEST_CASE("nobody misses a ring") {
  constexpr int kTurns = 20000;
  constexpr double kHour = 3600;
  Bell bell{};
  std::atomic<int> turn = 0;
  const auto play = [&](int parity) {
    for (int mine = parity; mine < kTurns; mine += 2) {
      while (!bell.sleep_unless([&] { return turn == mine; }, kHour)) continue;
      ++turn;
      bell.ring();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(turn == kTurns);
}

TEST_CASE("a sleep without a ring ends after its limit, and does not begin where all is done") {
  Bell bell{};
  CHECK_FALSE(bell.sleep_unless([] { return false; }, 1e-6));
  CHECK(bell.sleep_unless([] { return true; }, 3600));
}

TEST_CASE("waiting awake ends with patience or with what is waited for") {
  for (size_t ranks : {1, 1000}) {  // fewer than cores, and more
    int asked = 0;
    CHECK(wait_awake(ranks, [&] { return ++asked == 5; }));
    CHECK(asked == 5);
    CHECK_FALSE(wait_awake(ranks, [] { return false; }));
  }
}

}  // namespace
}  // namespace ladder::testing
