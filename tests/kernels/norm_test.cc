#include "kernels/norm.h"

#include <algorithm>

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

using Kernel = void (*)(Stream&, TensorView, TensorView, ConstTensorView);

double run(Kernel kernel, DType dtype, const Values& in, size_t more_workspace = 0) {
  const Array out(DType::fp64, {1});
  const Array workspace(DType::fp64, {sum_workspace_elements(in.size()) + more_workspace});
  const Array x(dtype, {in.size()}, in);
  kernel(stream(), out, workspace, x);
  workspace.values();  // checks the guards
  require_same_bits(x.values(), in);
  return out.values()[0];
}

void squared_norm(Stream& stream, TensorView out, TensorView workspace, ConstTensorView in) {
  squared_norms(stream, out, workspace, {in});
}

// The header's order, to the letter.
double in_order(const Values& terms) {
  double total = 0, group = 0;
  for (size_t first = 0; first < terms.size(); first += kSumTile) {
    if (first % (kSumGroup * kSumTile) == 0) {
      total += group;
      group = 0;
    }
    double lane[8] = {};
    for (size_t i = first; i < std::min(terms.size(), first + kSumTile); ++i) {
      lane[(i - first) % 8] += terms[i];
    }
    group +=
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
  return total + group;
}

constexpr size_t kLengths[] = {
    1,    7,    8,    17,   63,      65,      1023,
    1024, 1025, 2048, 5000, 100'003, 600'001, 2 * kSumGroup* kSumTile + 1};

TEST_CASE("sum and squared_norms equal the reference and have the stated order") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (size_t n : kLengths) {
      INFO(name_of(dtype) << " " << n);
      const Values in = random_values(dtype, n, "in");
      Values squares(n);
      double total = 0, norm = 0, size = 0;
      for (size_t i = 0; i < n; ++i) {
        squares[i] = in[i] * in[i];
        total += in[i];
        norm += squares[i];
        size += std::abs(in[i]);
      }
      // n - 1 additions in two orders, and the squares' rounding; both sums are fp64 for any dtype.
      const double error = rounding_error(DType::fp64, static_cast<double>(n));
      require_within({run(sum, dtype, in)}, {total}, error, {size});
      require_within({run(squared_norm, dtype, in)}, {norm}, error, {norm});
      require_same_bits({run(sum, dtype, in)}, {in_order(in)});
      require_same_bits({run(squared_norm, dtype, in)}, {in_order(squares)});
      require_same_bits({run(sum, dtype, in, 5)}, {in_order(in)});
    }
  }
}

TEST_CASE("sum and squared_norms give the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    const Values in = random_values(dtype, 100'003, "in");
    require_same_for_any_threads([&] { return Values{run(sum, dtype, in)}; });
    require_same_for_any_threads([&] { return Values{run(squared_norm, dtype, in)}; });
  }
}

// More tensors than a launch takes, of one to several groups, some of them empty.
TEST_CASE("squared_norms of many tensors are those of each") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    const size_t count = 150;
    std::vector<Array> tensors;
    std::vector<ConstTensorView> views;
    Values expected;
    size_t tiles = 0;
    for (size_t t = 0; t < count; ++t) {
      const size_t n = t % 7 == 3 ? 0 : t == 70 ? kSumGroup * kSumTile + 5 : 1 + 307 * (t % 11);
      const Values in = random_values(dtype, n, concat("in", t));
      tensors.emplace_back(dtype, Shape{n}, in);
      expected.push_back(n == 0 ? 0 : run(squared_norm, dtype, in));
      tiles += sum_workspace_elements(n);
    }
    for (const Array& tensor : tensors) views.push_back(tensor);
    const Array out(DType::fp64, {count}), workspace(DType::fp64, {tiles});
    squared_norms(stream(), out, workspace, views);
    workspace.values();  // checks the guards
    require_same_bits(out.values(), expected);
  }
}

TEST_CASE("squared_norms of fp32 neither overflows nor loses small numbers") {
  const OnDevice on = on_every_device();
  // 1e30^2 is beyond fp32, not beyond fp64.
  const double large = rounded(DType::fp32, 1e30);
  CHECK(run(squared_norm, DType::fp32, {large}) == large * large);
  CHECK(run(squared_norm, DType::fp32, {large, std::nan("")}) !=
        run(squared_norm, DType::fp32, {large, std::nan("")}));
  // 2^24 + 1 is no fp32 number, but the sum is fp64.
  CHECK(run(sum, DType::fp32, {0x1p24, 1}) == 0x1p24 + 1);
}

TEST_CASE("squared_norms of fp32 is finite exactly if every element is") {
  const OnDevice on = on_every_device();
  const double largest = std::numeric_limits<float>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  for (size_t n : {1, 1025, 5000}) {
    CHECK(std::isfinite(run(squared_norm, DType::fp32, Values(n, largest))));
    for (size_t at : {size_t{0}, n / 2, n - 1}) {
      for (double bad : {infinity, -infinity, std::nan("")}) {
        Values in = random_values(DType::fp32, n, "in");
        in[at] = bad;
        const Array x(DType::fp32, {n}, in), out(DType::fp64, {1});
        const Array workspace(DType::fp64, {sum_workspace_elements(n)});
        squared_norm(stream(), out, workspace, x);
        CHECK_FALSE(std::isfinite(out.values()[0]));
      }
    }
  }
}

TEST_CASE("sum_workspace_elements counts blocks") {
  CHECK(sum_workspace_elements(1) == 1);
  CHECK(sum_workspace_elements(1024) == 1);
  CHECK(sum_workspace_elements(1025) == 2);
}

}  // namespace
}  // namespace ladder
