// Assignments, drops and orders of arrival, written out for a few tokens.
#include "lessons/15_expert_parallel/routing.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using Ints = std::vector<int32_t>;

// What assign_tokens gives, with its buffers.
struct Assigned {
  Assigned(const Ints& experts, const RoutingSizes& sizes, double capacity_factor)
      : assignments(experts.size(), 99),
        rows(experts.size(), 99),
        fractions(sizes.batch * sizes.num_experts) {
    const TensorView view(fractions.data(), DType::fp64, DeviceType::cpu,
                          {sizes.batch, sizes.num_experts});
    routing = assign_tokens(assignments, rows, view, experts, sizes, capacity_factor);
    rows.resize(routing.num_assignments());
  }
  Ints assignments, rows;
  std::vector<double> fractions;
  Routing routing;
};

TEST_CASE("capacity is rounded up, and is T at most: nobody chooses an expert twice") {
  CHECK(expert_capacity(16, 2, 8, 1) == 4);
  CHECK(expert_capacity(16, 2, 8, 1.01) == 5);
  CHECK(expert_capacity(16, 2, 8, 0) == 16);
  CHECK(expert_capacity(16, 2, 8, 4) == 16);
  CHECK(expert_capacity(16, 2, 8, 100) == 16);
  CHECK(expert_capacity(5, 1, 64, 0.001) == 1);
}

TEST_CASE("assignments are numbered by expert and then by row") {
  // Two sequences of two tokens, which choose two of three experts each.
  const Assigned a({2, 0, 0, 1, 1, 2, 2, 1}, {2, 2, 2, 3}, 0);
  CHECK(a.routing.kept == std::vector<size_t>{2, 3, 3});
  CHECK(a.routing.dropped == std::vector<size_t>{0, 0, 0});
  CHECK(a.assignments == Ints{5, 0, 1, 2, 3, 6, 7, 4});
  CHECK(a.rows == Ints{0, 1, 1, 2, 3, 0, 2, 3});
  CHECK(a.fractions == std::vector<double>{0.5, 0.25, 0.25, 0, 0.5, 0.5});
}

TEST_CASE(
    "an expert takes the first tokens of each sequence; fractions count the dropped ones too") {
  // Two sequences of three tokens, which choose one of two experts; each takes one of a sequence.
  const Assigned a({1, 1, 0, 1, 0, 0}, {2, 3, 1, 2}, 0.6);
  CHECK(a.assignments == Ints{2, -1, 0, 3, 1, -1});
  CHECK(a.rows == Ints{2, 4, 0, 3});
  CHECK(a.routing.kept == std::vector<size_t>{2, 2});
  CHECK(a.routing.dropped == std::vector<size_t>{1, 1});
  CHECK(a.fractions[0] == Approx(1 / 3.));
  CHECK(a.fractions[2] == Approx(2 / 3.));
}

TEST_CASE("padding goes nowhere, takes no place and is not dropped") {
  // Of two sequences of three tokens the first has one, and the second two, that are not padding.
  const std::vector<size_t> lengths = {1, 2};
  const Assigned a({1, 1, 1, 0, 0, 0}, {2, 3, 1, 2, lengths}, 0.9);
  CHECK(a.assignments == Ints{1, -1, -1, 0, -1, -1});
  CHECK(a.rows == Ints{3, 0});
  CHECK(a.routing.kept == std::vector<size_t>{1, 1});
  CHECK(a.routing.dropped == std::vector<size_t>{1, 0});
  CHECK(a.fractions == std::vector<double>{0, 1, 1, 0});
}

TEST_CASE("what arrives by sender is put in the order of experts, and back") {
  // Two ranks with two experts each. Rank 1 gets 2 + 0 assignments of rank 0 and 1 + 3 of rank 1.
  const Ints counts = {5, 1, 2, 0,  //
                       0, 4, 1, 3};
  Ints grouped(8, 99), arrived(8, 99);
  const Arrival at_1 = order_arrivals(grouped, arrived, counts, 2, 1);
  CHECK(at_1.of_expert == std::vector<size_t>{3, 3});
  CHECK(at_1.rows.of(0, 0) == 6);
  CHECK(at_1.rows.of(0, 1) == 2);
  CHECK(at_1.rows.of(1, 0) == 4);
  CHECK(at_1.rows.of(1, 1) == 4);
  CHECK(grouped == Ints{0, 1, 2, 3, 4, 5, 99, 99});  // rank 0 sends nothing to the second expert
  const Arrival at_0 = order_arrivals(grouped, arrived, Ints{1, 2, 0, 0, 2, 1, 0, 0}, 2, 0);
  CHECK(at_0.of_expert == std::vector<size_t>{3, 3});
  CHECK(Ints(grouped.begin(), grouped.begin() + 6) == Ints{0, 3, 4, 1, 2, 5});
  CHECK(Ints(arrived.begin(), arrived.begin() + 6) == Ints{0, 3, 4, 1, 2, 5});
}

}  // namespace
}  // namespace ladder
