#include "kernels/collective.h"

#include <deque>

#include "tests/catch.h"
#include "tests/kernels/support.h"

namespace ladder::testing {
namespace {

constexpr DType kDTypes[] = {DType::fp32, DType::fp64, DType::int32, DType::bf16, DType::fp16};
// Beside odd sizes: one tile of the summation, and a little more.
constexpr size_t kSizes[] = {0, 1, 17, 63, 65, 1024, 2 * 1024 + 5};

// Numbers of both signs, whole for int32, whose fp32 sums depend on the order.
Values inputs(DType dtype, size_t rank, size_t n) {
  Values values(n);
  for (size_t i = 0; i < n; ++i) {
    const double signed_value = static_cast<double>((rank * 131 + i * 37) % 1009) - 504;
    const double divided = signed_value / static_cast<double>(3 + rank);
    values[i] = dtype == DType::int32 ? signed_value : rounded(dtype, divided);
  }
  return values;
}

// One after the other in rank order, each sum rounded, in fp32 for bf16 and fp16, whose result is
// rounded in the end. Sums of int32 are exact in double.
Values reference(DType dtype, const std::vector<Values>& in, Reduction reduction) {
  const DType sums = dtype == DType::int32 ? DType::fp64 : accumulation_dtype(dtype);
  Values result = in[0];
  for (size_t r = 1; r < in.size(); ++r) {
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = reduction == Reduction::sum ? rounded(sums, result[i] + in[r][i])
                                              : std::max(result[i], in[r][i]);
    }
  }
  for (double& value : result) value = dtype == DType::int32 ? value : rounded(dtype, value);
  return result;
}

// Arrays of `ranks` ranks, aligned to an element only.
struct Buffers {
  Buffers(DType dtype, size_t ranks, size_t n) {
    for (size_t r = 0; r < ranks; ++r) {
      values.push_back(inputs(dtype, r, n));
      arrays.emplace_back(dtype, Shape{n}, values.back());
    }
  }
  template <class View>
  std::vector<View> views() const {
    return std::vector<View>(arrays.begin(), arrays.end());
  }

  std::vector<Values> values;
  std::deque<Array> arrays;
};

template <class Body>
void for_cases(Body body) {
  for (DType dtype : kDTypes) {
    for (size_t ranks = 1; ranks <= 8; ++ranks) {
      for (size_t n : kSizes) {
        for (Reduction reduction : {Reduction::sum, Reduction::max}) {
          INFO(name_of(dtype) << ", " << ranks << " buffers of " << n
                              << (reduction == Reduction::sum ? ", sum" : ", max"));
          const Buffers buffers(dtype, ranks, n);
          body(buffers, reference(dtype, buffers.values, reduction), reduction);
        }
      }
    }
  }
}

TEST_CASE("the inputs tell the order of summation") {
  std::vector<Values> in;
  for (size_t r = 0; r < 3; ++r) in.push_back(inputs(DType::fp32, r, 65));
  const std::vector<Values> backwards(in.rbegin(), in.rend());
  REQUIRE(reference(DType::fp32, in, Reduction::sum) !=
          reference(DType::fp32, backwards, Reduction::sum));
}

TEST_CASE("reduce_to_all writes the sum in rank order, or the maximum, to every buffer") {
  for_cases([](const Buffers& buffers, const Values& expected, Reduction reduction) {
    reduce_to_all(buffers.views<TensorView>(), reduction);
    for (const Array& array : buffers.arrays) require_same_bits(array.values(), expected);
  });
}

TEST_CASE("the largest of negative numbers is negative, whichever comes first") {
  for (DType dtype : kDTypes) {
    constexpr size_t n = 100;
    Values expected(n), low(n), high(n);
    for (size_t i = 0; i < n; ++i) {
      expected[i] = -1 - static_cast<double>(i);
      (i % 3 == 0 ? low : high)[i] = expected[i];
      (i % 3 == 0 ? high : low)[i] = -120;
    }
    const Array a(dtype, {n}, low), b(dtype, {n}, high);
    const std::vector<TensorView> both = {a, b};
    reduce_to_all(both, Reduction::max);
    require_same_bits(a.values(), expected);
  }
}

TEST_CASE("reduce_to_one writes it to one, which may be any of the buffers") {
  for_cases([](const Buffers& buffers, const Values& expected, Reduction reduction) {
    const std::vector<ConstTensorView> views = buffers.views<ConstTensorView>();
    const TensorView like = buffers.arrays[0].view();
    const Array out(like.dtype(), like.shape());
    reduce_to_one(out, views, reduction);
    require_same_bits(out.values(), expected);
    for (size_t r = 0; r < views.size(); ++r) {
      require_same_bits(buffers.arrays[r].values(), buffers.values[r]);
    }
    const Array& last = buffers.arrays.back();
    reduce_to_one(last, views, reduction);
    require_same_bits(last.values(), expected);
  });
}

// The large ones are streamed past the cache: heads and tails that are not whole vectors.
TEST_CASE("copy_in_thread copies every element and no more") {
  for (size_t n : {0, 1, 17, 1000, (1 << 18), (1 << 18) + 1, (1 << 18) + 13}) {
    for (DType dtype : {DType::fp32, DType::int32}) {
      const Values values = inputs(DType::int32, 1, n);
      const Array in(dtype, {n}, values), out(dtype, {n});
      copy_in_thread(out, in);
      require_same_bits(out.values(), values);
      if (n == 0) continue;
      const Array shifted(dtype, {n});  // other alignments of both sides
      copy_in_thread(shifted.view().elements(0, {n - 1}), in.view().elements(1, {n - 1}));
      copy_in_thread(shifted.view().elements(n - 1, {1}), in.view().elements(0, {1}));
      Values rotated(values.begin() + 1, values.end());
      rotated.push_back(values[0]);
      require_same_bits(shifted.values(), rotated);
    }
  }
}

TEST_CASE("buffers that do not match are refused") {
  const Array a(DType::fp32, {8}), b(DType::fp32, {9}), c(DType::fp64, {8});
  for (const Array* other : {&b, &c}) {
    const TensorView two[] = {a, *other};
    const ConstTensorView pair[] = {a, *other}, one[] = {a};
    REQUIRE_THROWS_AS(reduce_to_all(two, Reduction::sum), Error);
    REQUIRE_THROWS_AS(reduce_to_one(a, pair, Reduction::sum), Error);
    REQUIRE_THROWS_AS(reduce_to_one(*other, one, Reduction::sum), Error);
    REQUIRE_THROWS_AS(copy_in_thread(*other, a), Error);
  }
  REQUIRE_THROWS_AS(reduce_to_all({}, Reduction::sum), Error);
}

}  // namespace
}  // namespace ladder::testing
