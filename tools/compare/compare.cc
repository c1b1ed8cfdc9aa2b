#include "tools/compare/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <type_traits>

namespace ladder {
namespace {

// By the exponent's bits: no compiler flag can take this test away.
bool is_finite(double value) {
  constexpr uint64_t kExponent = uint64_t{0x7FF} << 52;
  return (std::bit_cast<uint64_t>(value) & kExponent) != kExponent;
}

// The number's place in the order of all representable ones, relative to that of both zeros.
template <class T>
int64_t place_of(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Bits bits = std::bit_cast<Bits>(value);
  return bits >= 0 ? bits : -static_cast<int64_t>(bits & ~(Bits{1} << (sizeof(T) * 8 - 1)));
}

uint64_t ulp_distance(int64_t left, int64_t right) {
  return left > right ? static_cast<uint64_t>(left) - static_cast<uint64_t>(right)
                      : static_cast<uint64_t>(right) - static_cast<uint64_t>(left);
}

// What one pass over a range of elements finds.
struct Measured {
  double max_absolute = 0;
  double scale = 0;  // largest finite |element|
  uint64_t max_ulp = 0;
  size_t num_not_finite = 0;
  bool same_bits = true;  // the values' bits; dtypes are not looked at

  void merge(const Measured& other) {
    max_absolute = std::max(max_absolute, other.max_absolute);
    scale = std::max(scale, other.scale);
    max_ulp = std::max(max_ulp, other.max_ulp);
    num_not_finite += other.num_not_finite;
    same_bits = same_bits && other.same_bits;
  }
};

template <class A, class B>
Measured measure(const A* a, const B* b, size_t count) {
  using Narrower = std::conditional_t<(sizeof(A) < sizeof(B)), A, B>;
  Measured result;
  for (size_t i = 0; i < count; ++i) {
    const double left = a[i], right = b[i];
    if (!is_finite(left) || !is_finite(right)) {
      ++result.num_not_finite;
      result.same_bits = false;
      continue;
    }
    result.scale = std::max({result.scale, std::abs(left), std::abs(right)});
    if (std::bit_cast<uint64_t>(left) == std::bit_cast<uint64_t>(right)) continue;
    result.same_bits = false;
    result.max_absolute = std::max(result.max_absolute, std::abs(left - right));
    result.max_ulp = std::max(result.max_ulp, ulp_distance(place_of(static_cast<Narrower>(left)),
                                                           place_of(static_cast<Narrower>(right))));
  }
  return result;
}

// Elements [first, first + count) of both.
Measured measure(ConstTensorView a, ConstTensorView b, size_t first, size_t count) {
  return dispatch_accumulation(a.dtype(), [&](auto a_zero) {
    return dispatch_accumulation(b.dtype(), [&](auto b_zero) {
      if (count == 0) return measure(&a_zero, &b_zero, 0);
      return measure(a.as<decltype(a_zero)>() + first, b.as<decltype(b_zero)>() + first, count);
    });
  });
}

// Neither a NaN nor an infinite bound lets a difference pass.
bool within(double difference, double bound) { return is_finite(bound) && difference <= bound; }

// The figures; `passes` and the remark of tolerance 0.
TensorDifference judge(const std::string& name, ConstTensorView a, ConstTensorView b,
                       const Measured& measured, double tolerance) {
  TensorDifference result;
  result.name = name;
  result.num_elements = a.num_elements();
  result.max_absolute = measured.max_absolute;
  if (measured.max_absolute > 0) result.max_relative = measured.max_absolute / measured.scale;
  result.max_ulp = measured.max_ulp;
  result.num_not_finite = measured.num_not_finite;
  result.identical = measured.same_bits && a.dtype() == b.dtype();
  result.passes = result.num_not_finite == 0 &&
                  (tolerance > 0 ? within(result.max_relative, tolerance) : result.identical);
  if (result.num_not_finite > 0) {
    result.remark = concat(result.num_not_finite, " not finite");
  } else if (a.dtype() != b.dtype()) {
    result.remark = concat(name_of(a.dtype()), " against ", name_of(b.dtype()));
  } else if (!result.identical && measured.max_absolute == 0) {
    result.remark = "sign of zero";
  }
  return result;
}

TensorDifference other_shape(const std::string& name, ConstTensorView a, ConstTensorView b) {
  TensorDifference result;
  result.name = name;
  result.remark = concat("shape ", to_string(a.shape()), " against ", to_string(b.shape()));
  return result;
}

// "NAME" of "KIND.NAME" if it is the bias of query, key and value; else "".
std::string_view attention_bias(std::string_view name, std::string_view kind) {
  if (!name.starts_with(kind) || !name.ends_with(".attn.c_attn.bias")) return "";
  return name.substr(kind.size());
}

}  // namespace

void check_options(const CompareOptions& options) {
  const auto require = [](bool condition, const char* flag, const char* right, double value) {
    if (!condition) throw UserError(concat(flag, ": expected ", right, ", got ", value));
  };
  const auto positive = [](double value) { return is_finite(value) && value > 0; };
  require(options.tolerance == 0 || positive(options.tolerance), "--tolerance",
          "a finite number from 0", options.tolerance);
  require(positive(options.learning_rate), "--learning-rate", "a positive number",
          options.learning_rate);
  require(positive(options.epsilon), "--epsilon", "a positive number", options.epsilon);
}

TensorDifference compare_values(const std::string& name, ConstTensorView a, ConstTensorView b,
                                double tolerance) {
  if (a.shape() != b.shape()) return other_shape(name, a, b);
  return judge(name, a, b, measure(a, b, 0, a.num_elements()), tolerance);
}

TensorDifference compare_key_bias(const std::string& name, ConstTensorView a, ConstTensorView b,
                                  double tolerance, double allowance) {
  check(tolerance > 0, "compare_key_bias: the rule needs a tolerance above 0");
  if (a.shape() != b.shape()) return other_shape(name, a, b);
  const size_t third = a.num_elements() / 3;
  const Measured keys = measure(a, b, third, third);
  Measured others = measure(a, b, 0, third);
  others.merge(measure(a, b, 2 * third, a.num_elements() - 2 * third));
  Measured all = keys;
  all.merge(others);

  TensorDifference result = judge(name, a, b, all, tolerance);
  if (result.passes || result.num_not_finite > 0) return result;
  const double keys_bound = tolerance * all.scale + allowance;
  const bool others_pass = within(others.max_absolute / all.scale, tolerance);
  result.passes = others_pass && within(keys.max_absolute, keys_bound);
  result.remark = others_pass
                      ? concat("key bias: ", keys.max_absolute, " of ", keys_bound, " allowed")
                      : concat("query or value bias: ", others.max_absolute, " of ",
                               tolerance * all.scale, " allowed");
  return result;
}

TensorDifference DumpComparer::compare(size_t step, const std::string& name, ConstTensorView a,
                                       ConstTensorView b) {
  if (options_.tolerance > 0 && a.num_elements() % 3 == 0 && a.shape() == b.shape()) {
    if (const std::string_view bias = attention_bias(name, "grad."); !bias.empty()) {
      const size_t third = a.num_elements() / 3;
      double& largest = key_gradients_[std::string(bias)];
      largest = std::max(largest, measure(a, b, third, third).scale);
    }
    if (const std::string_view bias = attention_bias(name, "param."); !bias.empty()) {
      const double gradient = key_gradients_[std::string(bias)];
      const double allowance =
          static_cast<double>(step) * options_.learning_rate * gradient / options_.epsilon;
      return compare_key_bias(name, a, b, options_.tolerance, allowance);
    }
  }
  return compare_values(name, a, b, options_.tolerance);
}

}  // namespace ladder
