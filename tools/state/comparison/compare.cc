#include "tools/state/comparison/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

namespace ladder {
namespace {

// By the exponent's bits: no compiler flag can take this test away.
bool is_finite(double value) {
  constexpr uint64_t kExponent = uint64_t{0x7FF} << 52;
  return (std::bit_cast<uint64_t>(value) & kExponent) != kExponent;
}

// The number's place in the order of all representable ones, relative to that of both zeros.
template <class T>
int64_t ordinal_of(T value) {
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
    result.max_ulp =
        std::max(result.max_ulp, ulp_distance(ordinal_of(static_cast<Narrower>(left)),
                                              ordinal_of(static_cast<Narrower>(right))));
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

std::vector<Measured> measure_parts(ConstTensorView a, ConstTensorView b, const Parts& parts) {
  std::vector<Measured> measured(parts.count);
  for (size_t first = 0; first < a.num_elements(); first += parts.length) {
    measured[first / parts.length % parts.count].merge(measure(a, b, first, parts.length));
  }
  return measured;
}

// All but the verdict and what differs from part to part.
TensorDifference figures_of(const std::string& name, ConstTensorView a, ConstTensorView b,
                            const Measured& all) {
  TensorDifference result;
  result.name = name;
  result.num_elements = a.num_elements();
  result.max_absolute = all.max_absolute;
  result.max_ulp = all.max_ulp;
  result.num_not_finite = all.num_not_finite;
  result.identical = all.same_bits && a.dtype() == b.dtype();
  if (result.num_not_finite > 0) {
    result.remark = concat(result.num_not_finite, " not finite");
  } else if (a.dtype() != b.dtype()) {
    result.remark = concat(name_of(a.dtype()), " against ", name_of(b.dtype()));
  } else if (!result.identical && all.max_absolute == 0) {
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

constexpr size_t kKey = 1;  // of query, key and value
constexpr std::array kEmbeddings = {"wte.weight", "wpe.weight", "embed_tokens.weight"};

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

std::string Parts::name_of(size_t part) const {
  if (kind == Kind::whole) return {};
  if (kind == Kind::rows) return concat("row ", part);
  return part == 0 ? "query" : part == kKey ? "key" : "value";
}

Parts parts_of(const std::string& name, const Shape& shape) {
  const size_t dims = shape.num_dims(), columns = dims == 0 ? 1 : shape[dims - 1];
  const auto is_of = [&](const char* table) { return name.ends_with(table); };
  if (dims == 2 && std::ranges::any_of(kEmbeddings, is_of)) {
    return {columns, shape[0], Parts::Kind::rows};
  }
  if (dims == 2 && columns % 3 == 0 && name.ends_with("attn.c_attn.weight")) {
    return {columns / 3, 3, Parts::Kind::weights};
  }
  if (dims == 1 && columns % 3 == 0 && name.ends_with("attn.c_attn.bias")) {
    return {columns / 3, 3, Parts::Kind::bias};
  }
  return {shape.num_elements(), 1};
}

TensorDifference compare_values(const std::string& name, ConstTensorView a, ConstTensorView b,
                                double tolerance, double key_allowance) {
  if (a.shape() != b.shape()) return other_shape(name, a, b);
  const Parts parts = parts_of(name, a.shape());
  const std::vector<Measured> measured = measure_parts(a, b, parts);
  Measured all;
  for (const Measured& part : measured) all.merge(part);
  TensorDifference result = figures_of(name, a, b, all);

  std::pair<bool, double> worst = {false, 0};  // a part that fails is worse than any that passes
  for (size_t p = 0; p < parts.count; ++p) {
    const bool is_key_bias = parts.kind == Parts::Kind::bias && p == kKey;
    const double scale = is_key_bias ? all.scale : measured[p].scale;
    const double difference = measured[p].max_absolute;
    const double bound = tolerance * scale + (is_key_bias ? key_allowance : 0);
    const std::pair found = {!within(difference, bound), difference > 0 ? difference / scale : 0};
    if (found <= worst) continue;
    worst = found;
    result.part = parts.name_of(p);
    result.max_relative = found.second;
    if (is_key_bias && key_allowance > 0) {
      result.remark = concat("key bias: ", difference, " of ", bound, " allowed");
    }
  }
  result.passes = result.num_not_finite == 0 && (tolerance > 0 ? !worst.first : result.identical);
  return result;
}

TensorDifference DumpComparer::compare(size_t step, const std::string& name, ConstTensorView a,
                                       ConstTensorView b) {
  double allowance = 0;
  const Parts parts = parts_of(name, a.shape());
  if (parts.kind == Parts::Kind::bias && options_.tolerance > 0 && a.shape() == b.shape()) {
    const std::string parameter = name.substr(name.find('.') + 1);  // behind "grad." or "param."
    if (name.starts_with("grad.")) {
      double& largest = key_gradients_[parameter];
      largest = std::max(largest, measure_parts(a, b, parts)[kKey].scale);
    }
    if (name.starts_with("param.")) {
      allowance = static_cast<double>(step) * options_.learning_rate * key_gradients_[parameter] /
                  options_.epsilon;
    }
  }
  return compare_values(name, a, b, options_.tolerance, allowance);
}

}  // namespace ladder
