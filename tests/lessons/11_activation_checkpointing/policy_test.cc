// What lesson 11 decides to drop: the costs, the cheapest choice, the memory of every mode by the
// README's formulas, and lesson 01's bits.
#include "lessons/11_activation_checkpointing/policy.h"

#include <limits>

#include "lessons/01_single_gpu/trainer.h"
#include "lessons/11_activation_checkpointing/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig small_config(DType dtype, size_t num_layers = 5) {
  RunConfig config = equivalence_config(dtype, 3);
  config.model.num_layers = num_layers;
  return config;
}

TEST_CASE("the costs of a block's steps, written out") {
  // R = 48 rows, C = 32, NH = 2, T = 16: bf16 activations, fp32 statistics.
  const std::vector<OperationCost> costs = operation_costs(small_config(DType::bf16));
  const std::vector<size_t> bytes = {48 * (64 + 8), 48 * 192, 48 * (64 + 8), 48 * 64,
                                     48 * (64 + 8), 48 * 256, 48 * 256,      48 * 64};
  const std::vector<double> flops = {
      48. * 8 * 32,          48. * (6 * 1024 + 96), 48. * (2 * 32 * 16 + 2 * 16 / 2),
      48. * (2 * 1024 + 64), 48. * 8 * 32,          48. * (8 * 1024 + 128),
      48. * 8 * 128,         48. * (8 * 1024 + 64)};
  REQUIRE(costs.size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    INFO(costs[i].name);
    CHECK(costs[i].operation == i);
    CHECK(costs[i].bytes == bytes[i]);
    CHECK(costs[i].flops == flops[i]);
  }
}

TEST_CASE("with norms of q and k the first step keeps these twice, and norms them") {
  const auto costs_with = [](QkNorm qk_norm) {
    return operation_costs(with_llama_block(small_config(DType::bf16), 1, qk_norm));
  };
  // R = 48 rows; 2 heads of q and 1 of k, of 16 elements each.
  const auto without = costs_with(QkNorm::none), with = costs_with(QkNorm::rmsnorm);
  for (size_t i = 0; i < with.size(); ++i) {
    INFO(with[i].name);
    CHECK(with[i].bytes == without[i].bytes + (i == 1 ? 48 * (3 * 16 * 2 + 3 * 4) : 0));
    CHECK(with[i].flops == without[i].flops + (i == 1 ? 48. * 4 * 3 * 16 : 0));
  }
}

// Of all counts that save enough the fewest operations.
double least_flops(const std::vector<OperationCost>& costs, size_t num_blocks, size_t bytes) {
  double least = std::numeric_limits<double>::infinity();
  DropCounts counts(costs.size(), 0);
  while (true) {
    if (saved_bytes(costs, counts) >= bytes) least = std::min(least, added_flops(costs, counts));
    size_t digit = 0;
    while (digit < counts.size() && counts[digit] == num_blocks) counts[digit++] = 0;
    if (digit == counts.size()) return least;
    ++counts[digit];
  }
}

TEST_CASE("no other choice saves as much with fewer operations") {
  const size_t num_blocks = 3;
  const std::vector<OperationCost> costs = droppable_costs(small_config(DType::fp32, num_blocks));
  const size_t most = saved_bytes(costs, DropCounts(7, num_blocks));
  for (size_t tenth = 0; tenth <= 20; ++tenth) {
    const size_t bytes = most * tenth / 20;
    const DropCounts counts = choose_drops(costs, num_blocks, bytes);
    INFO(bytes << " of " << most);
    CHECK(saved_bytes(costs, counts) >= bytes);
    CHECK(added_flops(costs, counts) == least_flops(costs, num_blocks, bytes));
  }
  CHECK_THROWS_AS(choose_drops(costs, num_blocks, most + 1), Error);
}

constexpr size_t kFc = number_of_operation(kMlp, SublayerOperation::first);

TEST_CASE("one block that drops a tensor saves nothing and computes nothing again") {
  const std::vector<OperationCost> costs = {{kFc, "fc", 100, 7}};
  CHECK(saved_bytes(costs, {1}) == 0);
  CHECK(added_flops(costs, {1}) == 0);
  CHECK(choose_drops(costs, 4, 0) == DropCounts{0});
  CHECK(choose_drops(costs, 4, 1) == DropCounts{2});
  CHECK(choose_drops(costs, 4, 201) == DropCounts{4});
  const RecomputePlan plan = plan_recompute(mode_of(costs, {2}, 4), 4, 1);
  CHECK(plan.drops(1, kFc));
  CHECK(!plan.drops(2, kFc));
  CHECK(plan.recomputed(0)[kFc]);
  CHECK(plan.recomputed(1).none());
}

MemoryUse predicted(RunConfig config, const std::string& mode, size_t activation_memory = 0) {
  config.recompute = parse_recompute(mode);
  return predict<CheckpointingTrainer>(config, {}, {.activation_memory = activation_memory}).device;
}

TEST_CASE("memory is as the README's formulas say") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const RunConfig config = small_config(dtype);
  const size_t r = 3 * 16, c = 32, nh = 2, l = 5, s = size_of(dtype), f = 4;
  const size_t outside = r * (2 * c * s + 2 * f);
  const size_t workspace = predicted(config, "none")[Category::workspace];
  const auto check_mode = [&](const std::string& mode, size_t kept, size_t shared) {
    INFO(mode << " in " << name_of(dtype));
    const MemoryUse use = predicted(config, mode);
    CHECK(use[Category::activations] == outside + r * kept);
    CHECK(use[Category::workspace] == workspace + r * shared);
    const RecomputePlan plan = plan_recompute(parse_recompute(mode), l, 1);
    CHECK(cost_of(config, plan).bytes == outside + r * (kept + shared));
  };
  check_mode("none", l * (16 * c * s + (nh + 4) * f), 0);
  check_mode("cheap", l * (10 * c * s + nh * f), 6 * c * s + 4 * f);
  check_mode("attention", l * (12 * c * s + 4 * f), 4 * c * s + nh * f);
  check_mode("mlp", l * (8 * c * s + (nh + 4) * f), 8 * c * s);
  check_mode("block", l * c * s, 15 * c * s + (nh + 4) * f);
  for (size_t k : {2, 3, 5}) {
    check_mode(concat("every-", k), (l + k - 1) / k * c * s,
               k * (15 * c * s + (nh + 4) * f) + (k - 1) * c * s);
  }
}

TEST_CASE("offloaded: the device has two sets and the last output, the host all sets but two") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  RunConfig config = small_config(dtype);
  config.offload_activations = true;
  const size_t r = 3 * 16, c = 32, nh = 2, l = 5, s = size_of(dtype), f = 4;
  const size_t outside = r * (2 * c * s + 2 * f);
  const auto check_mode = [&](const std::string& mode, size_t within) {
    INFO(mode << " in " << name_of(dtype));
    config.recompute = parse_recompute(mode);
    const Prediction use = predict<CheckpointingTrainer>(config, {}, {});
    CHECK(use.device[Category::activations] == outside + r * (3 * c * s + 2 * within));
    // The first block's input is in `outside`.
    CHECK(use.host[Category::activations] == r * ((l - 3) * c * s + (l - 2) * within));
  };
  check_mode("none", 15 * c * s + (nh + 4) * f);
  check_mode("cheap", 9 * c * s + nh * f);
  check_mode("attention", 11 * c * s + 4 * f);
  check_mode("mlp", 7 * c * s + (nh + 4) * f);
  check_mode("block", 0);
  config.recompute = {};
  CHECK_THROWS_WITH(
      (predict<CheckpointingTrainer>(config, {}, {.activation_memory = 1 << 30})),
      ContainsSubstring("--activation-memory") && ContainsSubstring("--offload-activations"));
}

TEST_CASE("a budget is kept, and one below the smallest is refused with the smallest") {
  const RunConfig config = small_config(DType::fp32);
  const size_t all = cost_of(config, {}).bytes;
  const std::vector<OperationCost> costs = droppable_costs(config);
  const size_t least = all - saved_bytes(costs, DropCounts(7, 5));
  const MemoryUse none = predicted(config, "none"), block = predicted(config, "block");
  CHECK(all == none[Category::activations]);
  CHECK(least ==
        block[Category::activations] + block[Category::workspace] - none[Category::workspace]);
  for (size_t budget : {least, least + 1, (least + all) / 2, all - 1, all, 2 * all}) {
    INFO(budget << " of " << all);
    const MemoryUse use = predicted(config, "none", budget);
    const size_t taken =
        use[Category::activations] + use[Category::workspace] - none[Category::workspace];
    CHECK(taken <= budget);
    CHECK((taken == all) == (budget >= all));
    const RecomputePlan plan = plan_recompute(
        mode_of(costs, choose_drops(costs, 5, all - std::min(all, budget)), 5), 5, 1);
    CHECK(cost_of(config, plan).bytes == taken);
  }
  CHECK_THROWS_AS(predicted(config, "none", least - 1), UserError);
  CHECK_THROWS_WITH(predicted(config, "none", least - 1),
                    ContainsSubstring(concat("--activation-memory ", least - 1)) &&
                        ContainsSubstring(concat("take ", least, ",")));
  CHECK_THROWS_AS(predicted(config, "mlp", all), UserError);
}

TEST_CASE("with any budget lesson 11 has the bits of lesson 01") {
  const RunConfig config = small_config(GENERATE(DType::fp64, DType::fp32));
  Communicator alone{std::make_unique<OneRank>()};
  const Record plain = record_run<SingleGpuTrainer>(config, alone, nullptr);
  const size_t all = cost_of(config, {}).bytes;
  for (size_t twentieth : {6, 8, 10, 13, 20}) {
    const CheckpointingTrainer::Flags flags = {.activation_memory = all * twentieth / 20};
    const Record record = record_run<CheckpointingTrainer>(config, alone, nullptr, flags);
    require_none(differences(plain, record, {}, config.optimizer));
    require_as_predicted(record);
  }
}

}  // namespace
}  // namespace ladder
