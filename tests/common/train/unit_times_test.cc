// Operations of a device, which come when they end, belong to the range that queued them.
#include "common/train/report/unit_times.h"

#include <vector>

#include "tests/catch.h"

namespace ladder {
namespace {

Time at(double seconds) {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
}

DeviceSpan operation(double issued, double begin, double end) {
  return {0, "matmul", Port::compute, issued, begin, begin, end};
}

TEST_CASE("The host queues two ranges at once; the device runs them later") {
  std::vector<UnitTime> done;
  UnitTimes units(0.25, [&](const UnitTime& work) { done.push_back(work); });
  // Queueing takes 0.25 s: two operations of a, one of no range, one of b.
  units.on_range("a", at(1), at(1.5));
  units.on_range("b", at(1.75), at(2));
  units.on_range("empty", at(2), at(2));
  units.add(operation(1.25, 10, 11));
  CHECK(done.empty());
  units.add(operation(1.5, 13, 14));
  units.add(operation(1.75, 14, 15));
  units.add(operation(2, 15, 18));
  units.finish();
  REQUIRE(done.size() == 2);
  CHECK(done[0].name == "a");
  CHECK(done[0].begin == 10);
  CHECK(done[0].end == 14);
  CHECK(done[0].busy == 2);
  CHECK(done[1].name == "b");
  CHECK(done[1].begin == 15);
  CHECK(done[1].busy == 3);
}

TEST_CASE("On a CPU the host waits, and operations end before their range does") {
  std::vector<UnitTime> done;
  UnitTimes units(0, [&](const UnitTime& work) { done.push_back(work); });
  units.add(operation(0, 0, 1));
  units.add(operation(1, 1, 3));
  units.on_range("a", at(0), at(3));
  units.add(operation(3, 3, 4));
  units.on_range("b", at(3), at(4));
  units.finish();
  REQUIRE(done.size() == 2);
  CHECK(done[0].busy == 3);
  CHECK(done[1].busy == 1);
}

}  // namespace
}  // namespace ladder
