#include "kernels/adamw.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

struct State {
  Values param, exp_avg, exp_avg_sq;
};

struct Inputs {
  Inputs(DType dtype, size_t n)
      : grad(random_values(dtype, n, "grad", 3)),
        start{random_values(dtype, n, "param"), random_values(dtype, n, "exp_avg"),
              random_values(dtype, n, "exp_avg_sq")} {
    for (double& value : start.exp_avg_sq) value = std::abs(value);
  }

  Values grad;
  State start;
};

// [Loshchilov19], algorithm 2, and what each result's rounding errors are relative to.
void reference_adamw(const AdamWStep& s, const Values& grad, State& state, State& size) {
  for (size_t i = 0; i < grad.size(); ++i) {
    const double g = s.grad_scale * grad[i];
    double &m = state.exp_avg[i], &v = state.exp_avg_sq[i], &p = state.param[i];
    const double m_size = s.beta1 * std::abs(m) + (1 - s.beta1) * std::abs(g);
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double step = static_cast<double>(s.step);
    const double m_factor = s.learning_rate / (1 - std::pow(s.beta1, step));
    const double divisor = std::sqrt(v / (1 - std::pow(s.beta2, step))) + s.epsilon;
    size.param[i] = std::abs(p) + m_factor * m_size / divisor;
    size.exp_avg[i] = m_size;
    size.exp_avg_sq[i] = v;
    p = p - s.learning_rate * s.weight_decay * p - m_factor * m / divisor;
  }
}

State run(DType dtype, const AdamWStep& step, const Inputs& x) {
  const Shape shape{x.grad.size()};
  const Array param(dtype, shape, x.start.param), exp_avg(dtype, shape, x.start.exp_avg);
  const Array exp_avg_sq(dtype, shape, x.start.exp_avg_sq), grad(dtype, shape, x.grad);
  adamw(stream(), {{param, exp_avg, exp_avg_sq, grad}}, step);
  require_same_bits(grad.values(), x.grad);
  return {param.values(), exp_avg.values(), exp_avg_sq.values()};
}

const AdamWStep kSteps[] = {
    {.learning_rate = 1e-2, .weight_decay = 0.1},
    {.learning_rate = 3e-2, .weight_decay = 0, .grad_scale = 0.037, .step = 2},
    {.learning_rate = 1e-3, .beta1 = 0, .beta2 = 0.999, .epsilon = 0.5, .step = 1000},
    {.learning_rate = 0, .weight_decay = 0.1, .step = 7},
};

TEST_CASE("adamw equals the reference") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (size_t n : {1, 17, 63, 65, 1025, 4097}) {
      for (const AdamWStep& step : kSteps) {
        INFO(name_of(dtype) << " " << n << " step " << step.step);
        const Inputs x(dtype, n);
        State expected = x.start, size = x.start;
        reference_adamw(step, x.grad, expected, size);
        const State got = run(dtype, step, x);
        // Roundings in a row, factors rounded to the dtype among them: g has two, m four more on
        // either term, v five. The root halves v's nine; its factor, two products, the sum and the
        // division bring the update to twenty.
        require_within(got.exp_avg, expected.exp_avg, rounding_error(dtype, 6), size.exp_avg);
        require_within(got.exp_avg_sq, expected.exp_avg_sq, rounding_error(dtype, 9),
                       size.exp_avg_sq);
        require_within(got.param, expected.param, rounding_error(dtype, 20), size.param);
      }
    }
  }
}

TEST_CASE("adamw keeps the parameter when nothing pulls at it") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    Inputs x(dtype, 65);
    x.grad = x.start.exp_avg = x.start.exp_avg_sq = Values(65, 0);
    const State got = run(dtype, {.learning_rate = 0.1}, x);
    require_same_bits(got.param, x.start.param);
  }
}

template <class T>
void require_element_by_element(const AdamWStep& step) {
  const Inputs x(dtype_of<T>, 4097);
  const AdamWFactors<T> factors(step);
  Values expected;
  for (int part = 0; part < 3; ++part) {
    for (size_t i = 0; i < x.grad.size(); ++i) {
      T values[] = {static_cast<T>(x.start.param[i]), static_cast<T>(x.start.exp_avg[i]),
                    static_cast<T>(x.start.exp_avg_sq[i])};
      adamw_element(values[0], values[1], values[2], static_cast<T>(x.grad[i]), factors);
      expected.push_back(values[part]);
    }
  }
  require_same_for_any_threads([&] {
    const State got = run(dtype_of<T>, step, x);
    Values all = got.param;
    all.insert(all.end(), got.exp_avg.begin(), got.exp_avg.end());
    all.insert(all.end(), got.exp_avg_sq.begin(), got.exp_avg_sq.end());
    require_same_bits(all, expected);
    return all;
  });
}

TEST_CASE("adamw has the bits of adamw_element, for any number of threads") {
  const OnDevice on = on_every_device();
  for (const AdamWStep& step : kSteps) {
    require_element_by_element<float>(step);
    require_element_by_element<double>(step);
  }
}

// Parts of flat buffers, as a layout has them: some touch, some do not, most of odd sizes; some,
// and the first one, have no elements.
TEST_CASE("adamw of many tensors is that of each, and rounds copies; padding keeps its values") {
  const OnDevice on = on_every_device();
  constexpr size_t kTensors = 130, kGap = 5;
  const DType copy_dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);  // fp32: no copy
  const bool in_packs = GENERATE(false, true);
  std::vector<size_t> first;
  std::vector<bool> decays;
  size_t n = 0;
  for (size_t i = 0; i < kTensors; ++i) {
    if (i % 3 > 0) n += in_packs ? 8 : kGap;
    first.push_back(n);
    decays.push_back(i % 4 < 2);
    n += in_packs ? 8 * (i % 5) : i * 7 % 40;
  }
  const auto end = [&](size_t i) {
    return i + 1 == kTensors ? n : first[i + 1] - ((i + 1) % 3 > 0 ? (in_packs ? 8 : kGap) : 0);
  };
  const Inputs x(DType::fp32, n);
  const Shape shape{n};
  const Array param(DType::fp32, shape, x.start.param), m(DType::fp32, shape, x.start.exp_avg);
  const Array v(DType::fp32, shape, x.start.exp_avg_sq), grad(DType::fp32, shape, x.grad);
  const Values untouched(n, 3);
  const Array copy(copy_dtype, shape, untouched);
  const AdamWStep step = {.learning_rate = 0.1, .weight_decay = 0.3, .step = 4};
  const AdamWFactors<float> decaying(step), other({.learning_rate = 0.1, .step = 4});
  std::vector<AdamWTensors> tensors;
  Values expected = x.start.param, expected_copy = untouched;
  for (size_t i = 0; i < kTensors; ++i) {
    const auto part = [&](const Array& all) {
      return all.view().rows(first[i], end(i) - first[i]);
    };
    tensors.push_back({part(param), part(m), part(v), part(grad)});
    if (copy_dtype != DType::fp32) tensors.back().copy = part(copy);
    tensors.back().decays = decays[i];
    for (size_t j = first[i]; j < end(i); ++j) {
      float p = static_cast<float>(x.start.param[j]), m_j = static_cast<float>(x.start.exp_avg[j]);
      float v_j = static_cast<float>(x.start.exp_avg_sq[j]);
      adamw_element(p, m_j, v_j, static_cast<float>(x.grad[j]), decays[i] ? decaying : other);
      expected[j] = p;
      if (copy_dtype != DType::fp32) expected_copy[j] = rounded(copy_dtype, p);
    }
  }
  adamw(stream(), tensors, step);
  require_same_bits(param.values(), expected);
  require_same_bits(copy.values(), expected_copy);
}

TEST_CASE("three steps of adamw in fp64 follow the reference") {
  const OnDevice on = on_every_device();
  Inputs x(DType::fp64, 63);
  x.start.exp_avg = x.start.exp_avg_sq = Values(63, 0);
  State expected = x.start, size = x.start;
  for (int64_t step = 1; step <= 3; ++step) {
    const AdamWStep s{.learning_rate = 0.1, .weight_decay = 0.1, .step = step};
    x.grad = random_values(DType::fp64, 63, concat("grad ", step));
    reference_adamw(s, x.grad, expected, size);
    x.start = run(DType::fp64, s, x);
  }
  // Errors of three steps add up; an update is at most a few learning rates, a parameter a few.
  require_within(x.start.param, expected.param, rounding_error(DType::fp64, 3 * 20), Values(63, 4));
}

}  // namespace
}  // namespace ladder
