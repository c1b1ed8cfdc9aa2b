#include "tools/state/comparison/compare.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "tests/catch.h"
#include "tools/state/comparison/compare_files.h"

namespace ladder {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

template <class T>
ConstTensorView view(const std::vector<T>& elements) {
  return {elements.data(), dtype_of<T>, DeviceType::cpu, {elements.size()}};
}

template <class A, class B>
TensorDifference compare(const std::vector<A>& a, const std::vector<B>& b, double tolerance) {
  return compare_values("x", view(a), view(b), tolerance);
}

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

TEST_CASE("the figures are the largest differences") {
  const TensorDifference found = compare(Doubles{1, -8, 3}, Doubles{1.5, -8, 2}, 0.1);
  CHECK(found.max_absolute == 1);
  CHECK(found.max_relative == 1.0 / 8);
  CHECK(found.num_elements == 3);
  CHECK_FALSE(found.passes);
  CHECK_FALSE(found.identical);
  CHECK(compare(Doubles{1, -8, 3}, Doubles{1.5, -8, 2}, 1.0 / 8).passes);
  CHECK(compare(Doubles{0, 0}, Doubles{0, 0}, 0.1).max_relative == 0);
  CHECK(compare(Doubles{1}, Doubles{-4}, 0.1).max_relative == 5.0 / 4);
  CHECK(compare(Doubles{-4}, Doubles{1}, 0.1).max_relative == 5.0 / 4);
}

TEST_CASE("ulps count the representable numbers in between, in the narrower dtype") {
  const float next = std::nextafter(1.0f, 2.0f);
  CHECK(compare(Floats{1}, Floats{next}, 1).max_ulp == 1);
  CHECK(compare(Doubles{1}, Doubles{next}, 1).max_ulp == uint64_t{1} << 29);
  CHECK(compare(Doubles{1}, Floats{next}, 1).max_ulp == 1);
  CHECK(compare(Floats{next}, Doubles{1}, 1).max_ulp == 1);
  const float tiny = std::numeric_limits<float>::denorm_min();
  CHECK(compare(Floats{-tiny}, Floats{tiny}, 1).max_ulp == 2);
  CHECK(compare(Floats{-0.0f}, Floats{tiny}, 1).max_ulp == 1);
  // All finite doubles, both signs: 2 * 0x7FEFFFFFFFFFFFFF steps, which 63 bits do not hold.
  const double largest = std::numeric_limits<double>::max();
  CHECK(compare(Doubles{-largest}, Doubles{largest}, 1).max_ulp == 2 * 0x7FEFFFFFFFFFFFFFu);
}

TEST_CASE("tolerance 0 is bitwise") {
  CHECK(compare(Doubles{1, 2}, Doubles{1, 2}, 0).passes);
  CHECK(compare(Doubles{1, 2}, Doubles{1, 2}, 0).identical);
  CHECK_FALSE(compare(Doubles{1, 2}, Doubles{1, std::nextafter(2, 3)}, 0).passes);
  const TensorDifference zeros = compare(Floats{0.0f}, Floats{-0.0f}, 0);
  CHECK_FALSE(zeros.passes);
  CHECK(zeros.remark == "sign of zero");
  CHECK(zeros.max_ulp == 0);
  CHECK(compare(Floats{0.0f}, Floats{-0.0f}, 1e-30).passes);
  CHECK_FALSE(compare(Floats{1}, Doubles{1}, 0).passes);
  CHECK(compare(Floats{1}, Doubles{1}, 0).remark == "fp32 against fp64");
  CHECK(compare(Floats{1}, Doubles{1}, 1e-30).passes);
}

TEST_CASE("what is not finite never passes") {
  for (const double bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const double tolerance : {0.0, 1e-11, 1e300}) {
      CHECK_FALSE(compare(Doubles{1, bad}, Doubles{1, 2}, tolerance).passes);
      CHECK_FALSE(compare(Doubles{1, 2}, Doubles{1, bad}, tolerance).passes);
      CHECK_FALSE(compare(Doubles{1, bad}, Doubles{1, bad}, tolerance).passes);
      const float bad_float = static_cast<float>(bad);
      CHECK_FALSE(compare(Floats{bad_float}, Floats{bad_float}, tolerance).passes);
    }
    CHECK_FALSE(compare(Doubles{bad}, Doubles{bad}, 0).identical);
    CHECK(compare(Doubles{1, bad, 3}, Doubles{1, bad, 4}, 0).num_not_finite == 1);
    CHECK(compare(Doubles{1, bad, 3}, Doubles{1, bad, 4}, 0).max_absolute == 1);
  }
  // A difference that overflows is no pass either.
  CHECK_FALSE(compare(Doubles{1.7e308}, Doubles{-1.7e308}, 1e300).passes);
}

TEST_CASE("another shape never passes, no element at all always does") {
  CHECK_FALSE(compare(Doubles{1, 2}, Doubles{1}, 1).passes);
  const Doubles six = {1, 2, 3, 4, 5, 6};
  const ConstTensorView flat = view(six);
  CHECK_FALSE(compare_values("x", flat.reshape({2, 3}), flat.reshape({3, 2}), 1).passes);
  CHECK(compare(Doubles{}, Doubles{}, 0).passes);
}

TEST_CASE("the key bias has an allowance, query and value bias have none") {
  // Query, key, value of two elements each; the largest element of the query is 2, of all 4.
  const Doubles a = {1, 2, 0.5, 0.25, 3, 4};
  const auto with = [&](size_t place, double change) {
    Doubles b = a;
    b[place] += change;
    return compare_values("h.0.attn.c_attn.bias", view(a), view(b), 0x1p-10, 0x1p-4);
  };
  // Allowed for the keys: 4 * 2^-10 + 2^-4; for the query 2 * 2^-10, for the value 4 * 2^-10. All
  // are exact.
  for (const size_t key : {2, 3}) {
    CHECK(with(key, 0x1p-8 + 0x1p-4).passes);
    CHECK_FALSE(with(key, 0x1p-8 + 0x1p-4 + 0x1p-20).passes);
    CHECK_FALSE(with(key, kNan).passes);
  }
  for (const size_t other : {0, 1, 4}) {
    const double allowed = other == 4 ? 0x1p-8 : 0x1p-9;
    CHECK(with(other, -allowed).passes);
    CHECK_FALSE(with(other, -allowed - 0x1p-20).passes);
    CHECK_FALSE(with(other, kNan).passes);
  }
  CHECK(with(2, 1).part == "key");
  CHECK_THAT(with(2, 1).remark, ContainsSubstring("key bias: 1 of "));
  CHECK(with(0, 1).part == "query");
  CHECK(with(4, 1).part == "value");
  CHECK(with(4, 1).remark.empty());
  // An allowance without bound allows nothing.
  Doubles b = a;
  b[2] += 1;
  CHECK_FALSE(compare_values("attn.c_attn.bias", view(a), view(b), 0x1p-10, kInfinity).passes);
}

TEST_CASE("query, key and value have a scale each, but the key bias that of the whole bias") {
  // A row of the weight: query, key, value; their largest are 100, 1 and 10000.
  const Doubles a = {100, 50, 1, 0.5, 1e4, 3, 90, 80, 0.25, -1, 7, 8};
  const auto off = [&](const std::string& name, const Shape& shape, size_t place, double change) {
    Doubles b = a;
    b[place] += change;
    const auto matrix = [&](const Doubles& values) { return view(values).reshape(shape); };
    return compare_values(name, matrix(a), matrix(b), 1e-3);
  };
  for (const std::string name : {"grad.h.11.attn.c_attn.weight", "h.0.attn.c_attn.weight"}) {
    CHECK(off(name, {2, 6}, 1, 0.09).passes);
    CHECK_FALSE(off(name, {2, 6}, 1, 0.11).passes);
    CHECK(off(name, {2, 6}, 1, 0.11).part == "query");
    CHECK(off(name, {2, 6}, 3, 9e-4).passes);
    CHECK_FALSE(off(name, {2, 6}, 9, 1.1e-3).passes);  // of the second row, as large as the first
    CHECK(off(name, {2, 6}, 8, 1.1e-3).part == "key");
    CHECK(off(name, {2, 6}, 11, 9).passes);
    CHECK_FALSE(off(name, {2, 6}, 11, 11).passes);
    CHECK(off(name, {2, 6}, 11, 11).max_relative == Approx(1.1e-3));
  }
  // Of the bias the parts are {100, 50, 1, 0.5}, {1e4, 3, 90, 80} and {0.25, -1, 7, 8}.
  const std::string bias = "exp_avg.h.0.attn.c_attn.bias";
  CHECK_FALSE(off(bias, {12}, 9, 9e-3).passes);
  CHECK_FALSE(off(bias, {12}, 1, 0.11).passes);
  CHECK(off(bias, {12}, 5, 9).passes);
  CHECK_FALSE(off(bias, {12}, 5, 11).passes);
  // Any other tensor is one part, and so is one that has no thirds.
  CHECK(off("h.0.attn.c_proj.weight", {2, 6}, 3, 9).passes);
  CHECK(off("h.0.attn.c_attn.weight", {3, 4}, 3, 9).passes);
  CHECK(off("h.0.attn.c_proj.weight", {2, 6}, 3, 9).part.empty());
}

TEST_CASE("keys whose bias is rounding alone pass next to a value, not on their own") {
  const Doubles a = {1, 1e-17, 1}, b = {1, -3e-18, 1};
  CHECK(compare_values("grad.h.0.attn.c_attn.bias", view(a), view(b), 1e-11).passes);
  CHECK(compare_values("grad.h.0.attn.c_attn.bias", view(a), view(b), 1e-11).max_relative < 2e-17);
  CHECK_FALSE(compare_values("x", view(Doubles{1e-17}), view(Doubles{-3e-18}), 1e-11).passes);
}

TEST_CASE("rows of the embeddings have a scale each") {
  const Doubles a = {100, 50, 1e-3, 5e-4, 0, 0};
  const auto off = [&](const std::string& name, size_t place, double change) {
    Doubles b = a;
    b[place] += change;
    return compare_values(name, view(a).reshape({3, 2}), view(b).reshape({3, 2}), 1e-3);
  };
  for (const std::string name : {"grad.wte.weight", "wpe.weight", "exp_avg.transformer.wte.weight",
                                 "model.embed_tokens.weight"}) {
    CHECK(off(name, 1, 0.09).passes);
    CHECK(off(name, 3, 9e-7).passes);
    CHECK_FALSE(off(name, 3, 1.1e-6).passes);
    CHECK(off(name, 3, 1.1e-6).part == "row 1");
    CHECK_FALSE(off(name, 4, 1e-300).passes);  // all of nothing
    CHECK(off(name, 0, 0).passes);
  }
  CHECK(off("grad.x.weight", 3, 0.09).passes);
}

// What the comparer says of the key part of c_attn.bias in step `step` that is off by `off`, when
// the key-bias gradients were `gradients` in steps 1, 2, ... of run A, and zero in run B.
bool key_bias_passes(const Doubles& gradients, size_t step, double off, double tolerance) {
  DumpComparer comparer({.tolerance = tolerance, .learning_rate = 0x1p-10, .epsilon = 0x1p-20});
  for (size_t i = 0; i < gradients.size(); ++i) {
    // The first and last third must not count: they are a real gradient.
    const Doubles gradient = {100, -gradients[i], 100}, none = {100, 0, 100};
    comparer.compare(i + 1, "grad.h.7.attn.c_attn.bias", view(gradient), view(none));
  }
  const Doubles a = {1, 0, 1}, b = {1, off, 1};
  return comparer.compare(step, "param.h.7.attn.c_attn.bias", view(a), view(b)).passes;
}

TEST_CASE("the allowance follows step, learning rate, largest gradient so far and epsilon") {
  // 2^-40 * 1 + step * 2^-10 * g / 2^-20, g = 2^-30: step * 2^-20 + 2^-40, all exact.
  const double g = 0x1p-30, tolerance = 0x1p-40, slack = 0x1p-45;
  CHECK(key_bias_passes({g}, 1, 0x1p-20 + 0x1p-40, tolerance));
  CHECK_FALSE(key_bias_passes({g}, 1, 0x1p-20 + 0x1p-40 + slack, tolerance));
  CHECK(key_bias_passes({g, g}, 2, 0x1p-19 + 0x1p-40, tolerance));
  CHECK_FALSE(key_bias_passes({g, g}, 2, 0x1p-19 + 0x1p-40 + slack, tolerance));
  CHECK(key_bias_passes({g, 0}, 2, 0x1p-19, tolerance));
  CHECK_FALSE(key_bias_passes({0, g / 2}, 2, 0x1p-19, tolerance));
  // No gradient seen, no step known, no tolerance: no allowance.
  CHECK_FALSE(key_bias_passes({}, 1, 0x1p-20, tolerance));
  CHECK_FALSE(key_bias_passes({g}, 0, 0x1p-20, tolerance));
  CHECK_FALSE(key_bias_passes({g}, 1, 0x1p-60, 0));
}

TEST_CASE("nothing but the parameters of c_attn.bias has the allowance") {
  DumpComparer comparer({.tolerance = 1e-12, .learning_rate = 1, .epsilon = 1e-8});
  const Doubles gradient = {1, 1e-6, 1}, a = {1, 0, 1}, b = {1, 1e-6, 1};
  const auto passes = [&](const std::string& name) {
    return comparer.compare(1, name, view(a), view(b)).passes;
  };
  for (const char* name :
       {"h.0.attn.c_attn.bias", "h.0.attn.c_attn.weight", "h.0.attn.c_proj.bias"}) {
    comparer.compare(1, concat("grad.", name), view(gradient), view(gradient));
  }
  CHECK_FALSE(passes("grad.h.0.attn.c_attn.bias"));
  CHECK_FALSE(passes("exp_avg.h.0.attn.c_attn.bias"));
  CHECK_FALSE(passes("exp_avg_sq.h.0.attn.c_attn.bias"));
  CHECK_FALSE(passes("param.h.0.attn.c_attn.weight"));
  CHECK_FALSE(passes("param.h.1.attn.c_attn.bias"));
  CHECK_FALSE(passes("param.h.0.attn.c_proj.bias"));
  CHECK(passes("param.h.0.attn.c_attn.bias"));
}

TEST_CASE("the table holds the worst first, 20 of them") {
  std::vector<FileDifference> files(1);
  files[0].name = "step_000001.safetensors";
  for (int i = 0; i < 30; ++i) {
    const Doubles a = {1}, b = {1 - i / 100.0};
    files[0].tensors.push_back(compare_values(concat("x", i), view(a), view(b), 0.1));
  }
  const Doubles bad = {kNan, 1}, worse = {kNan, 0.999};
  files[0].tensors.push_back(compare_values("bad", view(bad), view(worse), 0.1));
  const auto report = [&](bool all) {
    std::ostringstream out;
    CHECK_FALSE(print_report(out, files, {.tolerance = 0.1}, all));
    return out.str();
  };
  const std::string text = report(false);
  const auto at = [&](const std::string& part) { return text.find(part); };
  CHECK(at("FAIL  bad ") < at("FAIL  x29 "));
  CHECK(at("FAIL  x29 ") < at("FAIL  x28 "));
  CHECK(at("FAIL  x11 ") != text.npos);
  CHECK(at("x10 ") == text.npos);
  CHECK(at("... and 10 more") != text.npos);  // 31 tensors, of which x0 does not differ
  CHECK(report(true).find("pass  x0 ") != text.npos);
  CHECK_THAT(text, ContainsSubstring("31 tensors, 1 bitwise the same, 10 within tolerance, 20 "
                                     "different; worst \"bad\", max rel 1.00e-03  (1 not finite)"));
}

}  // namespace
}  // namespace ladder
