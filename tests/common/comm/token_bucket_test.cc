// A network that is slowed down: how long messages take at least, and that an error ends the wait.
#include "common/comm/token_bucket.h"

#include <thread>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("messages leave one after the other, of two threads too, and never early") {
  TokenBucket network(1e6);
  const std::atomic<bool> given_up = false;
  const Time begin = Clock::now();
  const auto send_two = [&] {
    for (int i = 0; i < 2; ++i) network.send(5000, given_up);
  };
  std::thread other(send_two);
  send_two();
  other.join();
  // Four messages of 5 ms, less the one millisecond that a late thread may catch up.
  CHECK(seconds_since(begin) >= 0.019);
}

TEST_CASE("time in which nothing was sent is lost") {
  TokenBucket network(1e6);
  const std::atomic<bool> given_up = false;
  network.send(1000, given_up);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Time begin = Clock::now();
  network.send(10'000, given_up);
  CHECK(seconds_since(begin) >= 0.009);
}

TEST_CASE("a message that would take hours ends when the run is given up") {
  TokenBucket network(1);
  std::atomic<bool> given_up = false;
  std::thread giver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    given_up = true;
  });
  CHECK_THROWS_AS(network.send(1 << 20, given_up), Error);
  giver.join();
}

}  // namespace
}  // namespace ladder
