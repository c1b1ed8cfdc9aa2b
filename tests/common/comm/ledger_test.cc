// What is counted under which name.
#include "common/comm/ledger.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("traffic is counted, and named, by axis") {
  Ledger ledger;
  const TrafficKey everybody = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey tensor = {Purpose::gradient, Collective::all_reduce, Axis::tensor};
  ledger.add(everybody, {1, 10});
  ledger.add(tensor, {1, 100});
  ledger.add(tensor, {1, 1000});
  const TrafficEntries expected = {{everybody, {1, 10}}, {tensor, {2, 1100}}};
  CHECK(ledger.entries() == expected);
  CHECK(name_of(everybody) == "gradient all_reduce");
  CHECK(name_of(tensor) == "tensor gradient all_reduce");
  CHECK(name_of(tensor, '.') == "tensor.gradient.all_reduce");
}

}  // namespace
}  // namespace ladder
