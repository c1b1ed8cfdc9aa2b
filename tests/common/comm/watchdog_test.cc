#include "common/comm/watchdog.h"

#include <future>

#include "tests/catch.h"

namespace ladder {
namespace {

using std::chrono::seconds;

TEST_CASE("a watchdog bites after its time, in a thread of its own") {
  std::promise<std::thread::id> bitten;
  const Watchdog dog(std::chrono::milliseconds(1),
                     [&] { bitten.set_value(std::this_thread::get_id()); });
  auto bite = bitten.get_future();
  REQUIRE(bite.wait_for(seconds(60)) == std::future_status::ready);
  CHECK(bite.get() != std::this_thread::get_id());
}

TEST_CASE("a watchdog that is destroyed in time does nothing, and at once") {
  bool has_bitten = false;
  const auto begin = std::chrono::steady_clock::now();
  {
    const Watchdog dog(seconds(3600), [&] { has_bitten = true; });
  }
  CHECK_FALSE(has_bitten);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(600));
}

}  // namespace
}  // namespace ladder
