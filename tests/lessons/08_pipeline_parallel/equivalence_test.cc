// Lesson 08 computes what lesson 01 computes, stage by stage.

#include "lessons/08_pipeline_parallel/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/split.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

constexpr ScheduleKind kKinds[] = {ScheduleKind::naive, ScheduleKind::gpipe,
                                   ScheduleKind::one_f_one_b};

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(split_config(dtype, 24));
    for (size_t ranks : {1, 2, 4}) {
      for (ScheduleKind kind : kKinds) {
        for (size_t micro_batch : {3, 12}) {  // 8 micro-batches, and 2: fewer than stages
          INFO(name_of(dtype) << ", " << ranks << " ranks, " << name_of(kind) << ", micro-batch "
                              << micro_batch);
          require_split_run<PipelineTrainer>(oracle, split_config(dtype, micro_batch), ranks,
                                             {.schedule = kind});
        }
      }
    }
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(split_config(DType::fp64, 24));
  for (size_t ranks : {2, 4}) {
    require_split_low_precision<PipelineTrainer>(exact, ranks, {});
  }
}

TEST_CASE("stages of any shape: only the embedding, only the head, one unit each") {
  RunConfig config = split_config(DType::fp64, 6);
  config.model.num_layers = 5;
  const Record oracle = record_oracle(config);
  for (const std::vector<size_t>& layers :
       {std::vector<size_t>{0, 5}, {5, 0}, {4, 1}, {0, 3, 2, 0}, {1, 1, 1, 2}}) {
    require_split_run<PipelineTrainer>(oracle, config, layers.size(), {.stage_layers = layers});
  }
  // 8 units on 8 stages: one has the token embedding alone, the next the position embedding.
  require_split_run<PipelineTrainer>(oracle, config, 8, {});
}

TEST_CASE("all schedules give the same bits, and those of accumulation on one rank but for wte") {
  const RunConfig config = split_config(GENERATE(DType::fp32, DType::bf16), 3);
  INFO(name_of(config.dtype));
  Communicator alone{std::make_unique<OneRank>()};
  const Record single = record_run<SingleGpuTrainer>(config, alone, nullptr);
  for (size_t ranks : {2, 4}) {
    Groups groups(ranks);
    std::vector<Record> records;
    for (ScheduleKind kind : kKinds) {
      records.push_back(record_run<PipelineTrainer>(config, *groups.group, &groups.node_memory,
                                                    {.schedule = kind}));
    }
    if (groups.group->rank() != 0) continue;
    require_none(differences(records[0], records[1], {}, config.optimizer));
    require_none(differences(records[0], records[2], {}, config.optimizer));
    // Blocks see the same micro-batches in the same order. The token embedding's gradient is added
    // up in two copies first.
    for (const auto& [name, values] : single.tensors[0]) {
      if (!name.starts_with("grad.")) continue;
      INFO(name);
      CHECK((records[2].tensors[0].at(name) == values) == (name != "grad.wte.weight"));
    }
  }
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<PipelineTrainer>(split_config(DType::fp64, 6), {.pipeline_size = 2});
}

TEST_CASE("evaluations are not in the times that the bubble is computed from") {
  Groups groups(4);
  Session<PipelineTrainer> session(split_config(DType::fp32, 3), *groups.group, nullptr);
  PipelineTrainer& trainer = *session.trainer;
  trainer.step();
  trainer.evaluate(1);
  CHECK(trainer.report().empty());  // the first step is not either
  trainer.step();
  const std::string report = trainer.report();
  CHECK_THAT(report, ContainsSubstring("bubble of 1f1b"));
  trainer.evaluate(1);
  CHECK(trainer.report() == report);
}

TEST_CASE("activations are those of the micro-batches in flight") {
  const RunConfig config = split_config(DType::fp32, 1);  // 24 micro-batches of 16 rows
  const auto activations = [&](ScheduleKind kind, size_t stage) {
    return predict<PipelineTrainer>(config, {.pipeline_size = 4, .rank = stage}, {.schedule = kind})
        .device[Category::activations];
  };
  for (size_t stage = 0; stage < 4; ++stage) {
    const size_t one = activations(ScheduleKind::naive, stage);
    CHECK(activations(ScheduleKind::gpipe, stage) == 24 * one);
    CHECK(activations(ScheduleKind::one_f_one_b, stage) == (4 - stage) * one);
  }
}

TEST_CASE("bytes are as the README says") {
  const RunConfig config = split_config(GENERATE(DType::fp32, DType::bf16), 3);
  const size_t message = 3 * 16 * 32 * size_of(config.dtype);  // R C
  for (size_t stage = 0; stage < 4; ++stage) {
    const Prediction prediction =
        predict<PipelineTrainer>(config, {.pipeline_size = 4, .rank = stage}, {});
    const size_t boundaries = (stage > 0) + (stage < 3);
    for (Collective direction : {Collective::send, Collective::recv}) {
      CHECK(prediction.step.at({Purpose::activation, direction, Axis::pipeline}) ==
            Traffic{.calls = 8 * boundaries, .payload_bytes = 8 * boundaries * message});
    }
    CHECK(prediction.step.count({Purpose::gradient, Collective::all_reduce, Axis::embedding}) ==
          (stage == 0 || stage == 3));
  }
}

TEST_CASE("layouts that cannot be are refused, with one that can") {
  const RunConfig config = split_config(DType::fp32, 3);
  const auto predicted = [&](size_t stages, const std::vector<size_t>& layers) {
    return predict<PipelineTrainer>(config, {.pipeline_size = stages}, {.stage_layers = layers});
  };
  CHECK_THROWS_AS(predicted(8, {}), UserError);  // 7 units
  CHECK_THROWS_WITH(predicted(8, {}), ContainsSubstring("8") && ContainsSubstring("7"));
  CHECK_THROWS_AS(predicted(2, {1, 2}), UserError);
  CHECK_THROWS_AS(predicted(2, {1, 2, 1}), UserError);
  CHECK_THROWS_AS(predicted(3, {2, 0, 2}), UserError);
  CHECK_THROWS_WITH(PipelineTrainer::arrange({.pipeline_parallel_size = 4}, 2, 0),
                    "--pipeline-parallel-size 4 on 2 ranks; start 4 of them, or take "
                    "09_3d_parallel, which splits the batch too");
}

TEST_CASE("a token embedding that differs on one of its two stages is found, and the ranks named") {
  const RunConfig config = split_config(DType::fp32, 3);
  for (size_t ranks : {2, 4}) {
    require_culprits_named<PipelineTrainer>(config, ranks, [&](const ProcessGrid& grid) {
      return PipelineStage(plan_pipeline(config, grid, {}), config.model, grid.rank).layout;
    });
  }
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<PipelineTrainer>(split_config(DType::fp32, 3), 4);
}

}  // namespace
}  // namespace ladder
