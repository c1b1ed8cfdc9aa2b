// The schedule, clipping, and the global norm.
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
