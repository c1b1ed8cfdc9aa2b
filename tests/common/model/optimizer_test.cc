// The schedule, clipping, AdamW over the flat layout, and the global norm.
#include "common/model/optimizer.h"

#include "kernels/runtime/threads.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kConfig = {
    .num_layers = 2, .num_heads = 3, .hidden = 15, .vocab_size = 370, .sequence_length = 11};

TEST_CASE("the learning rate warms up in a line and falls as a cosine") {
  OptimizerConfig config = {
      .num_steps = 110, .warmup_steps = 10, .learning_rate = 4, .min_learning_rate = 1};
  const auto rate = [&](int64_t step) { return learning_rate_at(config, step); };
  CHECK(rate(1) == Approx(0.4).epsilon(1e-15));
  CHECK(rate(5) == 2);
  CHECK(rate(10) == 4);
  CHECK(rate(11) < 4);
  // A quarter of the way down cos(pi / 4), in the middle the mean, then the lowest.
  CHECK(rate(35) == Approx(2.5 + 1.5 * std::sqrt(0.5)).epsilon(1e-15));
  CHECK(rate(60) == Approx(2.5).epsilon(1e-15));
  CHECK(rate(110) == 1);
  CHECK(rate(111) == 1);
  CHECK(rate(1'000'000) == 1);

  config.warmup_steps = 0;
  CHECK(rate(55) == Approx(2.5).epsilon(1e-15));
  CHECK(rate(1) < 4);
  CHECK(rate(1) > 3.99);
  CHECK(rate(110) == 1);

  config.warmup_steps = config.num_steps;
  CHECK(rate(1) == Approx(4.0 / 110).epsilon(1e-15));
  CHECK(rate(110) == 4);
  CHECK(rate(111) == 1);

  config = {.num_steps = 1, .warmup_steps = 0, .learning_rate = 4, .min_learning_rate = 4};
  CHECK(rate(1) == 4);
}

TEST_CASE("gradients are clipped where their norm is larger than clip_norm") {
  const OptimizerConfig config = {.clip_norm = 2};
  CHECK(clip_factor(config, 8) == 0.25);
  CHECK(clip_factor(config, 2) == 1);
  CHECK(clip_factor(config, 0) == 1);
  CHECK(clip_factor({.clip_norm = 0}, 8) == 1);
}

TEST_CASE("an update's numbers are those of the config") {
  const OptimizerConfig config = {.num_steps = 110,
                                  .warmup_steps = 10,
                                  .learning_rate = 4,
                                  .min_learning_rate = 1,
                                  .beta1 = 0.8,
                                  .beta2 = 0.7,
                                  .epsilon = 0.01,
                                  .weight_decay = 0.3,
                                  .clip_norm = 2};
  const AdamWStep step = adamw_step(config, 5, 8);
  CHECK(step.learning_rate == 2);
  CHECK(step.beta1 == 0.8);
  CHECK(step.beta2 == 0.7);
  CHECK(step.epsilon == 0.01);
  CHECK(step.weight_decay == 0.3);
  CHECK(step.grad_scale == 0.25);
  CHECK(step.step == 5);
}

// The four flat buffers. Padding holds numbers too, so that using it would show.
struct Buffers {
  Buffers(const Layout& layout, DType dtype) {
    for (const char* name : {"params", "exp_avg", "exp_avg_sq", "grads"}) {
      tensors.emplace_back(memory(), Category::workspace, dtype, Shape{layout.num_elements()});
      Values values = normal_values(layout.num_elements(), name, 1);
      if (tensors.size() == 3) {
        for (double& value : values) value = std::abs(value);
      }
      set_values(tensors.back(), values);
    }
  }
  void update(const Layout& layout, size_t first, size_t n, const AdamWStep& step) const {
    const auto part = [&](size_t i) { return tensors[i].view().rows(first, n); };
    adamw(stream(), adamw_tensors(layout, first, {part(0), part(1), part(2), part(3)}), step);
  }
  std::vector<Values> values() const {
    std::vector<Values> values;
    for (const Tensor& tensor : tensors) values.push_back(values_of(tensor));
    return values;
  }
  std::vector<Tensor> tensors;
};

constexpr AdamWStep kStep = {.learning_rate = 0.01,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .epsilon = 1e-3,
                             .weight_decay = 0.1,
                             .grad_scale = 0.5,
                             .step = 3};

// Calls body(parameter, index in the flat buffer) for every element that is no padding.
template <class Body>
void for_each_element(const Layout& layout, Body body) {
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      for (size_t i = 0; i < p.shape.num_elements(); ++i) body(p, unit.offset + p.offset + i);
    }
  }
}

TEST_CASE("AdamW as the paper writes it; matrices decay, padding stays") {
  const Layout layout(kConfig, 3);
  const Buffers buffers(layout, DType::fp64);
  const std::vector<Values> before = buffers.values();
  buffers.update(layout, 0, layout.num_elements(), kStep);
  const std::vector<Values> after = buffers.values();

  std::vector<Values> expected = before;
  size_t num_matrix_elements = 0;
  for_each_element(layout, [&](const Parameter& p, size_t i) {
    const bool is_matrix = p.shape.num_dims() == 2;
    num_matrix_elements += is_matrix;
    const double g = 0.5 * before[3][i];
    const double m = expected[1][i] = 0.9 * before[1][i] + (1 - 0.9) * g;
    const double v = expected[2][i] = 0.95 * before[2][i] + (1 - 0.95) * g * g;
    const double m_hat = m / (1 - std::pow(0.9, 3)), v_hat = v / (1 - std::pow(0.95, 3));
    const double theta = before[0][i];
    expected[0][i] -= 0.01 * (m_hat / (std::sqrt(v_hat) + 1e-3) + (is_matrix ? 0.1 : 0.0) * theta);
  });
  CHECK(num_matrix_elements == 15 * (370 + 11) + 2 * 12 * 15 * 15);
  CHECK(after[3] == before[3]);
  for (size_t kind = 0; kind < 3; ++kind) {
    for (size_t i = 0; i < layout.num_elements(); ++i) {
      // Some ten roundings of 2^-53 on either side of terms of order 1; those that cancel do so
      // against terms of at most 5.
      if (!(std::abs(after[kind][i] - expected[kind][i]) <= 1e-14)) {
        FAIL_CHECK(concat("kind ", kind, " element ", i, ": ", after[kind][i], ", expected ",
                          expected[kind][i]));
      }
    }
  }
  Values padding(layout.num_elements(), 1);
  for_each_element(layout, [&](const Parameter&, size_t i) { padding[i] = 0; });
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] == 1 && after[0][i] != before[0][i]) FAIL_CHECK("padding was updated");
  }
}

TEST_CASE("updates by shards are the whole update, to the bit, and touch nothing else") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const size_t world_size = GENERATE(1, 2, 3, 8);
  const Layout layout(kConfig, world_size);
  const Buffers whole(layout, dtype), parts(layout, dtype);
  whole.update(layout, 0, layout.num_elements(), kStep);
  std::vector<Values> before = parts.values();
  for (size_t rank = world_size; rank-- > 0;) {
    for (const Unit& unit : layout.units()) {
      const size_t shard = unit.padded_elements / world_size, first = unit.offset + rank * shard;
      parts.update(layout, first, shard, kStep);
      std::vector<Values> now = parts.values();
      for (size_t kind = 0; kind < 4; ++kind) {
        const auto [b, n] = std::pair(before[kind].begin(), now[kind].begin());
        const auto at = static_cast<std::ptrdiff_t>(first);
        const auto end = static_cast<std::ptrdiff_t>(first + shard);
        CHECK(std::equal(n, n + at, b));
        CHECK(std::equal(n + end, now[kind].end(), b + end));
      }
      before = now;
    }
  }
  CHECK(parts.values() == whole.values());
}

double norm_over_ranks(const Layout& layout, const Values& grads) {
  GradNorm norm(memory(), layout);
  double square = 0;
  for (size_t rank = 0; rank < layout.world_size(); ++rank) {
    square += norm.squared_norm(stream(), rank, view_of(grads));
  }
  return square;
}

// Gradients with zeros in the padding, as backward leaves them.
Values gradients(const Layout& layout) {
  Values grads(layout.num_elements());
  for (const Unit& unit : layout.units()) {
    const Values values = normal_values(unit.num_elements, unit.name, 1);
    std::ranges::copy(values, grads.begin() + static_cast<std::ptrdiff_t>(unit.offset));
  }
  return grads;
}

TEST_CASE("the ranks' squares add up to the square of the norm") {
  const size_t world_size = GENERATE(1, 2, 3, 8);
  const Layout layout(kConfig, world_size);
  long double expected = 0;
  const Values grads = gradients(layout);
  for (double g : grads) expected += static_cast<long double>(g) * g;
  // Positive terms: blocks of 1,024 in eight lanes, then some ten blocks: 140 roundings at most of
  // 2^-53, and these average out.
  CHECK(std::abs(norm_over_ranks(layout, grads) / static_cast<double>(expected) - 1) <= 1e-14);
}

TEST_CASE("each rank answers for its shard of every unit, in double even for fp32") {
  const Layout layout(kConfig, 3);
  GradNorm norm(memory(), layout);
  for (size_t u = 0; u < layout.units().size(); ++u) {
    const size_t shard = layout.unit(u).padded_elements / 3;
    for (size_t rank = 0; rank < 3; ++rank) {
      const Tensor grads(memory(), Category::gradients, DType::fp32, {layout.num_elements()});
      grads.view().as<float>()[layout.unit(u).offset + rank * shard + 1] = 3e-30F;
      const double square = static_cast<double>(3e-30F) * static_cast<double>(3e-30F);
      for (size_t other = 0; other < 3; ++other) {
        const double got = norm.squared_norm(stream(), other, grads);
        CHECK(got == (other == rank ? square : 0));
      }
    }
  }
}

TEST_CASE("the norm does not depend on threads, and its memory is as predicted") {
  const Layout layout({2, 2, 64, 900, 40}, 1);
  const Values grads = gradients(layout);
  set_num_threads(1);
  const double expected = norm_over_ranks(layout, grads);
  for (int threads : {2, 3, 5}) {
    set_num_threads(threads);
    CHECK(norm_over_ranks(layout, grads) == expected);
  }
  set_num_threads(1);
  for (size_t world_size : {1, 3}) {
    Memory arena(DeviceType::cpu, "device", 0);
    const Layout sharded(kConfig, world_size);
    const GradNorm norm(arena, sharded);
    // A sum for each block of 1,024 elements of the largest shard of a unit, and one for each unit.
    const size_t blocks = (sharded.largest_unit() / world_size + 1023) / 1024;
    CHECK(arena.peak()[Category::workspace] == 8 * (blocks + sharded.units().size()));
    CHECK(arena.peak().total() == arena.peak()[Category::workspace]);
  }
}

}  // namespace
}  // namespace ladder::testing
