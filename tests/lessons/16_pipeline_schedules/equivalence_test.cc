// Lesson 16 computes what lesson 01 computes, whatever the schedule. tests/lessons/random_test.cc
// asks for layouts of all kinds; here are bits, bytes and what needs one of its own.

#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/split.h"
#include "tests/lessons/weights.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

// All schedules but those that lesson 08 has, too; `chunks` counts for interleaved and for auto.
std::vector<ScheduleFlags> all_flags(size_t chunks) {
  std::vector<ScheduleFlags> all;
  for (Order order :
       {Order::one_f_one_b, Order::interleaved, Order::zb_h1, Order::zb_h2, Order::zb_v}) {
    all.push_back({.order = order, .chunks = order == Order::interleaved ? chunks : 0});
  }
  all.push_back({.order = std::nullopt, .chunks = chunks});
  return all;
}

std::string name_of(const ScheduleFlags& flags) {
  return flags.order ? std::string(name_of(*flags.order)) : "auto";
}

RunConfig config_of(DType dtype, size_t micro_batch) {
  RunConfig config = split_config(dtype, micro_batch);
  config.model.num_layers = 6;  // 9 units: 4 stages of 2 chunks have one each
  return config;
}

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  Sample sample(5);
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(config_of(dtype, 24));
    for (size_t ranks : {1, 2, 4}) {
      for (const ScheduleFlags& flags : all_flags(2)) {
        for (size_t micro_batch : {3, 6}) {  // 8 and 4 micro-batches
          if (!sample.takes()) continue;
          INFO(name_of(dtype) << ", " << ranks << " ranks, " << name_of(flags) << ", micro-batch "
                              << micro_batch);
          require_split_run<ScheduleTrainer>(oracle, config_of(dtype, micro_batch), ranks, flags);
        }
      }
    }
  }
}

TEST_CASE("three stages of two chunks") {
  RunConfig config = config_of(DType::fp64, 4);  // 6 micro-batches
  const Record oracle = record_oracle(config);
  for (Order order : {Order::interleaved, Order::zb_v}) {
    INFO(name_of(order));
    require_split_run<ScheduleTrainer>(oracle, config, 3, {.order = order});
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(split_config(DType::fp64, 24));
  for (Order order : {Order::zb_h1, Order::zb_v}) {
    require_split_low_precision<ScheduleTrainer>(exact, 2, {.order = order});
  }
}

TEST_CASE("the bits of lesson 08's 1F1B, but for wte where both its uses are on one stage") {
  const RunConfig config = config_of(GENERATE(DType::fp32, DType::bf16), 3);
  INFO(name_of(config.dtype));
  for (size_t ranks : {2, 4}) {
    Groups groups(ranks);
    const Record expected =
        record_run<PipelineTrainer>(config, *groups.group, &groups.node_memory, {});
    for (const ScheduleFlags& flags : all_flags(2)) {
      const Record record =
          record_run<ScheduleTrainer>(config, *groups.group, &groups.node_memory, flags);
      if (groups.group->rank() != 0 || !flags.order) continue;
      const bool has_one_wte = *flags.order == Order::zb_v;
      for (const auto& [name, values] : expected.tensors[0]) {
        if (!name.starts_with("grad.")) continue;
        INFO(name << ", " << name_of(flags) << ", " << ranks << " ranks");
        CHECK((record.tensors[0].at(name) == values) ==
              !(has_one_wte && name == "grad.wte.weight"));
      }
    }
  }
}

TEST_CASE("no schedule relies on buffers between the stages") {
  const RunConfig config = config_of(DType::fp64, 3);
  const Record oracle = record_oracle(config);
  for (const ScheduleFlags& flags : all_flags(2)) {
    INFO(name_of(flags));
    Groups groups(4, {.synchronous_sends = true});
    const Record record =
        record_run<ScheduleTrainer>(config, *groups.group, &groups.node_memory, flags);
    if (groups.group->rank() != 0) continue;
    require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
  }
}

TEST_CASE("activations are those of the buffers, by the README's formula") {
  // 4 parts of 2 stages: h.0 with the embeddings or without; T = 16, C = 32, NH = 4, in fp32.
  RunConfig config = split_config(DType::fp32, 3);
  const size_t rows = 3 * 16, c = 32, heads = 4, size = 4;
  const auto bytes = [&](size_t blocks, bool is_last) {
    return (rows * (blocks * (16 * c + heads + 4) + c) + (is_last ? rows * (c + 2) : 0)) * size;
  };
  const auto activations = [&](const ScheduleFlags& flags, size_t stage) {
    return predict<ScheduleTrainer>(
               config, {.pipeline_size = 2, .rank = stage, .pipeline_links = kNumLinks}, flags)
        .device[Category::activations];
  };
  const std::vector<size_t> two = {2, 2}, four = {1, 1, 1, 1};
  CHECK(activations({.order = Order::one_f_one_b, .stage_layers = two}, 0) == 2 * bytes(2, false));
  CHECK(activations({.order = Order::one_f_one_b, .stage_layers = two}, 1) == bytes(2, true));
  for (size_t stage : {0, 1}) {
    CHECK(activations({.order = Order::zb_h1, .stage_layers = two}, stage) ==
          2 * bytes(2, stage == 1));
    // The last part is on the last stage, or on the first one in a V.
    CHECK(activations({.order = Order::interleaved, .stage_layers = four}, stage) ==
          (stage == 0 ? 5 : 3) * bytes(1, stage == 1));
    CHECK(activations({.order = Order::zb_v, .stage_layers = four}, stage) ==
          4 * bytes(1, stage == 0));
  }
}

TEST_CASE("evaluations are not in the times that are reported") {
  Groups groups(4);
  Session<ScheduleTrainer> session(config_of(DType::fp32, 3), *groups.group, nullptr,
                                   {.order = Order::zb_v});
  ScheduleTrainer& trainer = *session.trainer;
  trainer.step();
  trainer.evaluate(1);
  CHECK(trainer.report().empty());  // the first step is not either
  trainer.step();
  const std::string report = trainer.report();
  if (groups.group->rank() == 0) {
    CHECK_THAT(report, ContainsSubstring("bubble of zb-v") && ContainsSubstring("--times "));
  }
  trainer.evaluate(1);
  CHECK(trainer.report() == report);
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  for (Order order : kOrders) {
    require_negative_control<ScheduleTrainer>(split_config(DType::fp64, 6),
                                              {.pipeline_size = 2, .pipeline_links = kNumLinks},
                                              {.order = order});
  }
}

TEST_CASE("a token embedding that differs on one of its two stages is found, and the ranks named") {
  const RunConfig config = split_config(DType::fp32, 3);
  require_culprits_named<ScheduleTrainer>(config, 2, [&](const ProcessGrid& grid) {
    return PipelineStage(plan_schedule(config, grid, {}, {}), config.model, grid.rank).layout;
  });
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<ScheduleTrainer>(config_of(DType::fp32, 3), 4, {.order = Order::zb_v});
}

TEST_CASE("the search keeps to the chunks that are asked for") {
  const auto chunks_of = [](size_t chunks) {
    const auto no_bytes = [](const auto&, size_t) { return size_t{0}; };
    return plan_schedule(split_config(DType::fp32, 2), {.pipeline_size = 2},
                         {.order = std::nullopt, .chunks = chunks}, no_bytes)
        ->placement.num_chunks;
  };
  CHECK(chunks_of(0) == 2);
  CHECK(chunks_of(1) == 1);
}

}  // namespace
}  // namespace ladder
