// The bubbles that the paper of ZB-H1 and ZB-H2 computes from measured times [Qi23, tables 5 and
// 6].
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/io/json_file.h"
#include "common/schedule/build.h"
#include "common/schedule/simulate.h"
#include "lessons/16_pipeline_schedules/schedules.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// A row of the tables: a stage's times of a micro-batch, and the bubbles.
struct Row {
  nlohmann::json json;

  double operator[](const char* key) const { return json.at(key).get<double>(); }
  size_t count(const char* key) const { return json.at(key).get<size_t>(); }
  double work() const {
    return (*this)["micro_batches"] *
           ((*this)["forward_ms"] + (*this)["backward_input_ms"] + (*this)["backward_weight_ms"]);
  }
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  const auto file = read_json_object("tests/published/zero_bubble_golden.json", 100'000);
  for (const auto& row : file.at("rows")) rows.push_back({row});
  REQUIRE(rows.size() == 12);
  return rows;
}

struct Simulated {
  double bubble;  // as the paper counts it
  double time;    // until all stages have ended
};

Simulated simulated(const Row& row, Order order) {
  const ChunkPlacement at = placement_of(order, row.count("stages"), 1);
  const Schedule schedule = complete(make_work(order, at, row.count("micro_batches")), at, false);
  const std::vector<VirtualStageTimes> times(
      at.num_virtual_stages(),
      {row["forward_ms"], row["backward_input_ms"], row["backward_weight_ms"]});
  const Timeline timeline = simulate(schedule, costs_of(at, times, row["send_ms"]), Links::eager);
  return {1 - row.work() / longest_stage(schedule, timeline), extent_of(timeline).length()};
}

TEST_CASE("36 published bubbles follow from the lists, to all four digits") {
  for (const Row& row : all_rows()) {
    CAPTURE(row.json.dump());
    const auto published = [&](Order order, const char* key) {
      CHECK(std::round(1e4 * simulated(row, order).bubble) == std::round(1e4 * row[key]));
    };
    published(Order::one_f_one_b, "bubble_1f1b");
    published(Order::zb_h1, "bubble_zb_h1");
    published(Order::zb_h2, "bubble_zb_h2");
  }
}

TEST_CASE("with the paper's times ZB-H2 is faster than ZB-H1, though stages end a step together") {
  for (const Row& row : all_rows()) {
    CHECK(simulated(row, Order::zb_h2).time < simulated(row, Order::zb_h1).time);
  }
  const Row first = all_rows().front();  // of lesson 16's reference page
  const double whole = simulated(first, Order::one_f_one_b).time;
  CHECK(simulated(first, Order::zb_h1).time / whole == Approx(0.90).margin(0.005));
  CHECK(simulated(first, Order::zb_h2).time / whole == Approx(0.85).margin(0.005));
}

}  // namespace
}  // namespace ladder
