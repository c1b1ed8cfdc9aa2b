// The bubbles that the paper of ZB-H1 and ZB-H2 computes from measured times [Qi23, tables 5 and
// 6].
#include <cstdlib>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tools/measure/bubbles/rows.h"

namespace ladder::bubbles {
namespace {

std::vector<Row> all_rows() {
  const std::vector<Row> rows = read_rows("tests/published/zero_bubble_golden.json");
  REQUIRE(rows.size() == 12);
  return rows;
}

// The columns by their titles.
const Column& column(std::string_view title) {
  for (const Column& each : kColumns) {
    if (title == each.title) return each;
  }
  fail("no such column");
}

double published(const Row& row, const Column& of) {
  return row.published[static_cast<size_t>(&of - kColumns.data())];
}

TEST_CASE("36 published bubbles follow from the lists, to all four digits") {
  for (const Row& row : all_rows()) {
    for (const char* title : {"1F1B", "ZB-H1", "ZB-H2"}) {
      CAPTURE(row.model, row.micro_batches, title);
      const Column& named = column(title);
      CHECK(digits(simulated(row, named).bubble) == digits(published(row, named)));
    }
  }
}

// Nobody says why; the paper does not say what messages between chunks wait for.
TEST_CASE("interleaved, a published step is shorter than ours by the time of p messages") {
  for (const Row& row : all_rows()) {
    CAPTURE(row.model, row.micro_batches);
    const Column& interleaved = column("interleaved");
    const double work =
        static_cast<double>(row.micro_batches) * (row.forward + row.input + row.weight);
    const double ours = work / (1 - simulated(row, interleaved).bubble);
    const double shorter = ours - static_cast<double>(row.stages) * row.send;
    CHECK(std::abs(digits(1 - work / shorter) - digits(published(row, interleaved))) <= 1);
  }
}

// Those of 32 stages take half a minute: tools/measure/published zero_bubble_golden has them too.
TEST_CASE("with the same memory the search finds lists as good as the paper's search") {
  for (const Row& row : all_rows()) {
    if (row.stages > 16) continue;
    for (const Column& searched : kColumns) {
      if (searched.pipelines == 0) continue;
      CAPTURE(row.model, row.micro_batches, searched.title);
      CHECK(digits(simulated(row, searched).bubble) <= digits(published(row, searched)));
    }
  }
}

TEST_CASE("with the paper's times ZB-H2 is faster than ZB-H1, though stages end a step together") {
  const auto time = [](const Row& row, const char* title) {
    return simulated(row, column(title)).time;
  };
  for (const Row& row : all_rows()) CHECK(time(row, "ZB-H2") < time(row, "ZB-H1"));
  const Row first = all_rows().front();  // of lesson 16's reference page
  CHECK(time(first, "ZB-H1") / time(first, "1F1B") == Approx(0.90).margin(0.005));
  CHECK(time(first, "ZB-H2") / time(first, "1F1B") == Approx(0.85).margin(0.005));
}

}  // namespace
}  // namespace ladder::bubbles
