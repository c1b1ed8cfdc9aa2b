#include "kernels/dispatch.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

// Rows that each make k choices, one in five of which is dropped. The others have assignments in an
// order that jumps about.
struct Case {
  Case(size_t rows_, size_t columns_, size_t chosen_)
      : rows(rows_), columns(columns_), chosen(chosen_), assignments(rows * chosen, -1) {
    std::vector<size_t> kept;
    for (size_t i = 0; i < assignments.size(); ++i) {
      if (i % 5 != 3) kept.push_back(i);
    }
    num_assignments = kept.size();
    row_of_assignment.resize(num_assignments);
    for (size_t i = 0; i < num_assignments; ++i) {
      const size_t assignment =
          num_assignments % 7 == 0 ? num_assignments - 1 - i : i * 7 % num_assignments;
      assignments[kept[i]] = static_cast<double>(assignment);
      row_of_assignment[assignment] = static_cast<double>(kept[i] / chosen);
    }
  }
  Shape out() const { return {rows, columns}; }
  Shape in() const { return {num_assignments, columns}; }
  Shape choices() const { return {rows, chosen}; }

  size_t rows, columns, chosen, num_assignments = 0;
  Values assignments, row_of_assignment;
};
std::vector<Case> cases() {
  return {{1, 1, 1}, {17, 63, 2}, {65, 64, 3}, {63, 65, 1}, {9, 1030, 2}};
}

TEST_CASE("gather_rows copies the rows that the index names") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Case& c : cases()) {
      const Values in = random_values(dtype, c.rows * c.columns, "in");
      Values expected;
      for (double row : c.row_of_assignment) {
        const auto begin =
            in.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(c.columns);
        expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(c.columns));
      }
      const Array out(dtype, c.in());
      gather_rows(stream(), out, Array(dtype, c.out(), in),
                  Array(DType::int32, {c.num_assignments}, c.row_of_assignment));
      require_same_bits(out.values(), expected);
    }
  }
}

TEST_CASE("nothing is gathered for no rows") {
  const OnDevice on = on_every_device();
  const Array out(DType::fp32, {2, 3}, Values(6, 5)), in(DType::fp32, {4, 3}, Values(12, 1));
  const Array index(DType::int32, {2}, {0, 1});
  gather_rows(stream(), out.view().rows(0, 0), in, index.view().rows(0, 0));
  require_same_bits(out.values(), Values(6, 5));
}

TEST_CASE("sum_assignments adds the assignments of a row in the order of its choices") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Case& c : cases()) {
      const Values in = random_values(dtype, c.num_assignments * c.columns, "in");
      Values expected(c.rows * c.columns);
      for (size_t i = 0; i < expected.size(); ++i) {
        double sum = 0;
        for (size_t j = 0; j < c.chosen; ++j) {
          const double assignment = c.assignments[i / c.columns * c.chosen + j];
          if (assignment < 0) continue;
          sum = rounded(accumulation_dtype(dtype),
                        sum + in[static_cast<size_t>(assignment) * c.columns + i % c.columns]);
        }
        expected[i] = rounded(dtype, sum);
      }
      require_same_for_any_threads([&] {
        const Array out(dtype, c.out());
        sum_assignments(stream(), out, Array(dtype, c.in(), in),
                        Array(DType::int32, c.choices(), c.assignments));
        require_same_bits(out.values(), expected);
        return out.values();
      });
    }
  }
}

TEST_CASE("combine_forward adds the weighted assignments to the residual stream") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const DType full = accumulation_dtype(dtype);
    for (const Case& c : cases()) {
      const Values in = random_values(dtype, c.num_assignments * c.columns, "in");
      const Values residual = random_values(dtype, c.rows * c.columns, "residual");
      const Values weights = random_values(full, c.rows * c.chosen, "weights");
      Values expected = residual, size(residual);
      for (double& x : size) x = std::abs(x);
      for (size_t i = 0; i < expected.size(); ++i) {
        for (size_t j = i / c.columns * c.chosen; j < (i / c.columns + 1) * c.chosen; ++j) {
          if (c.assignments[j] < 0) continue;
          const double term =
              weights[j] * in[static_cast<size_t>(c.assignments[j]) * c.columns + i % c.columns];
          expected[i] += term;
          size[i] += std::abs(term);
        }
      }
      const Array out(dtype, c.out());
      combine_forward(stream(), out, Array(dtype, c.out(), residual), Array(dtype, c.in(), in),
                      Array(DType::int32, c.choices(), c.assignments),
                      Array(full, c.choices(), weights));
      require_within(dtype, out.values(), expected, rounding_error(dtype, 8), size);
    }
  }
}

TEST_CASE("combine_backward: each assignment its weighted gradient, each weight a dot product") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const DType full = accumulation_dtype(dtype);
    for (const Case& c : cases()) {
      const Values in = random_values(dtype, c.num_assignments * c.columns, "in");
      const Values dout = random_values(dtype, c.rows * c.columns, "dout");
      const Values weights = random_values(full, c.rows * c.chosen, "weights");
      Values din(in.size()), dweights(weights.size()), size(weights.size());
      for (size_t choice = 0; choice < weights.size(); ++choice) {
        if (c.assignments[choice] < 0) continue;
        const size_t assignment = static_cast<size_t>(c.assignments[choice]);
        for (size_t i = 0; i < c.columns; ++i) {
          const double d = dout[choice / c.chosen * c.columns + i];
          din[assignment * c.columns + i] = stored(dtype, weights[choice] * d);
          dweights[choice] += d * in[assignment * c.columns + i];
          size[choice] += std::abs(d * in[assignment * c.columns + i]);
        }
      }
      const Array dx(dtype, c.in()), dw(full, c.choices());
      combine_backward(stream(), dx, dw, Array(dtype, c.out(), dout), Array(dtype, c.in(), in),
                       Array(DType::int32, c.choices(), c.assignments),
                       Array(full, c.choices(), weights));
      require_same_bits(dx.values(), din);
      require_within(dw.values(), dweights,
                     rounding_error(dtype, static_cast<double>(c.columns) + 2), size);
    }
  }
}

}  // namespace
}  // namespace ladder
