// Lesson 09 has the bits of the lessons that it combines, refuses what does not go together, and
// finds copies that differ. (tests/lessons/random_test.cc compares it with lesson 01.)
#include <array>
#include <optional>
#include <tuple>

#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/split.h"
#include "tests/lessons/weights.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

ThreeDTrainer::Flags flags_for(size_t tensor, size_t pipeline, size_t zero_stage = 0,
                               std::optional<Order> order = Order::one_f_one_b) {
  ThreeDTrainer::Flags flags;
  flags.tensor_parallel_size = tensor;
  flags.pipeline.pipeline_parallel_size = pipeline;
  flags.pipeline.order = order;
  flags.zero.stage = zero_stage;
  return flags;
}

std::string name_of(const ThreeDTrainer::Flags& flags) {
  return flags.pipeline.order ? std::string(ladder::name_of(*flags.pipeline.order)) : "auto";
}

// Calls body(ranks, flags) for a sample of the arrangements that differ.
template <class Body>
void for_arrangements(Body body) {
  Sample sample(4);
  for (size_t tensor : {1, 2, 4}) {
    for (size_t pipeline : {1, 2, 4}) {
      for (size_t data : {1, 2, 4}) {
        const size_t ranks = tensor * pipeline * data;
        if (ranks > 8) continue;
        for (size_t zero_stage : {0, 1}) {
          for (Order order : {Order::one_f_one_b, Order::gpipe, Order::naive}) {
            if (pipeline == 1 && order != Order::one_f_one_b) continue;
            if (!sample.takes()) continue;
            INFO(tensor << " tensor x " << pipeline << " pipeline x " << data << " data, ZeRO-"
                        << zero_stage << ", " << name_of(order));
            body(ranks, flags_for(tensor, pipeline, zero_stage, order));
          }
        }
      }
    }
  }
}

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  const Record oracle = record_oracle(split_config(DType::fp64, 24));
  for_arrangements([&](size_t ranks, const ThreeDTrainer::Flags& flags) {
    // 3 micro-batches or more on every pipeline.
    require_split_run<ThreeDTrainer>(oracle, split_config(DType::fp64, 2), ranks, flags);
  });
}

TEST_CASE("with sequence parallelism: the same, and less memory") {
  const RunConfig config = split_config(DType::fp64, 2);
  const Record oracle = record_oracle(split_config(DType::fp64, 24));
  for (const auto& [ranks, flags] :
       {std::pair(4, flags_for(2, 2)), std::pair(4, flags_for(2, 1, 1)),
        std::pair(8, flags_for(2, 2, 1, Order::gpipe)), std::pair(8, flags_for(4, 2))}) {
    ThreeDTrainer::Flags split = flags;
    split.sequence_parallel = true;
    const Record record = require_split_run<ThreeDTrainer>(oracle, config, ranks, split);
    const Prediction whole = predict<ThreeDTrainer>(config, record.grid, flags);
    CHECK(record.device_peak[Category::activations] < whole.device[Category::activations]);
  }
  ThreeDTrainer::Flags alone = flags_for(1, 2);
  alone.sequence_parallel = true;
  CHECK_THROWS_WITH(ThreeDTrainer::arrange(alone, 4, 0),
                    ContainsSubstring("--sequence-parallel") && ContainsSubstring("2 would do"));
}

TEST_CASE("with scattered messages: the same, and a part of the bytes between stages") {
  const Record oracle = record_oracle(split_config(DType::fp64, 24));
  const auto sent = [](const ThreeDTrainer::Flags& flags) {
    const Prediction prediction = predict<ThreeDTrainer>(
        split_config(DType::fp64, 2), ThreeDTrainer::arrange(flags, 8, 0), flags);
    return prediction.step.at({Purpose::activation, Collective::send, Axis::pipeline})
        .payload_bytes;
  };
  for (const ThreeDTrainer::Flags& flags : {flags_for(2, 2), flags_for(4, 2, 0, Order::gpipe),
                                            flags_for(2, 2, 1, Order::interleaved)}) {
    ThreeDTrainer::Flags scattered = flags;
    scattered.scatter_messages = true;
    INFO(flags.tensor_parallel_size << " tensor, " << name_of(flags));
    require_split_run<ThreeDTrainer>(oracle, split_config(DType::fp64, 2), 8, scattered);
    CHECK(sent(scattered) == sent(flags) / flags.tensor_parallel_size);
  }
  ThreeDTrainer::Flags alone = flags_for(1, 2);
  alone.scatter_messages = true;
  CHECK_THROWS_WITH(ThreeDTrainer::arrange(alone, 4, 0),
                    ContainsSubstring("--scatter-messages") && ContainsSubstring("2 would do"));
  ThreeDTrainer::Flags no_messages = flags_for(2, 1);
  no_messages.scatter_messages = true;
  CHECK_THROWS_WITH(ThreeDTrainer::arrange(no_messages, 4, 0),
                    ContainsSubstring("has no messages"));
  ThreeDTrainer::Flags both = flags_for(2, 2);
  both.scatter_messages = both.sequence_parallel = true;
  CHECK_THROWS_WITH(ThreeDTrainer::arrange(both, 4, 0), ContainsSubstring("--scatter-messages"));
}

// Runs one of 8 ranks' arrangements with some flags changed.
Record run_changed(const RunConfig& config, Groups& groups, ThreeDTrainer::Flags flags,
                   void (*change)(ThreeDTrainer::Flags&)) {
  change(flags);
  return record_run<ThreeDTrainer>(config, *groups.group, &groups.node_memory, flags);
}

TEST_CASE("without overlap: the same bits, memory and bytes") {
  const RunConfig config = split_config(GENERATE(DType::fp64, DType::bf16), 3);
  for (const ThreeDTrainer::Flags& flags :
       {flags_for(2, 2), flags_for(2, 1, 1), flags_for(1, 1), flags_for(2, 2, 1, Order::zb_h1),
        flags_for(1, 2, 0, Order::interleaved)}) {
    for (bool split_tokens : {false, true}) {
      if (split_tokens && flags.tensor_parallel_size == 1) continue;
      ThreeDTrainer::Flags all = flags;
      all.sequence_parallel = split_tokens;
      INFO(flags.tensor_parallel_size << " tensor, " << name_of(flags) << ", ZeRO-"
                                      << flags.zero.stage);
      Groups beside(8), after(8);  // two, since they count what is communicated
      const Record with = run_changed(config, beside, all, [](ThreeDTrainer::Flags&) {});
      const Record without = run_changed(config, after, all, [](ThreeDTrainer::Flags& f) {
        f.no_overlap = {"data", "tensor"};
      });
      require_as_predicted(without);
      if (after.group->rank() == 0) require_none(differences(with, without, {}, config.optimizer));
    }
  }
}

TEST_CASE("gradients summed in bf16: the bits of lesson 10, and near fp64 on every grid") {
  const auto in_bf16 = [](ThreeDTrainer::Flags& flags) { flags.reduce.dtype = DType::bf16; };
  for (size_t zero_stage : {0, 1}) {
    const RunConfig config = split_config(DType::bf16, 3);
    Groups groups(4);
    const Record theirs =
        record_run<MixedPrecisionTrainer>(config, *groups.group, &groups.node_memory,
                                          {.zero = {.stage = zero_stage}, .reduce = {DType::bf16}});
    const Record own = run_changed(config, groups, flags_for(1, 1, zero_stage), in_bf16);
    if (groups.group->rank() == 0) require_none(differences(theirs, own, {}, config.optimizer));
  }
  const Record exact = record_oracle(split_config(DType::fp64, 24));
  for (ThreeDTrainer::Flags flags : {flags_for(2, 2), flags_for(2, 2, 1), flags_for(1, 4)}) {
    in_bf16(flags);
    require_split_low_precision<ThreeDTrainer>(exact, 8, flags);
    flags.no_overlap = {"data"};
    require_split_low_precision<ThreeDTrainer>(exact, 8, flags);
  }
}

TEST_CASE("in fp32 too") {
  const Record oracle = record_oracle(split_config(DType::fp32, 24));
  for (size_t zero_stage : {0, 1}) {
    require_split_run<ThreeDTrainer>(oracle, split_config(DType::fp32, 3), 8,
                                     flags_for(2, 2, zero_stage));
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(split_config(DType::fp64, 24));
  for (size_t zero_stage : {0, 1}) {
    require_split_low_precision<ThreeDTrainer>(exact, 8, flags_for(2, 2, zero_stage));
  }
}

TEST_CASE("the axes alone have the bits of their lessons") {
  const RunConfig config = split_config(GENERATE(DType::fp32, DType::bf16), 3);
  const auto require_same = [&]<class T>(size_t ranks, const typename T::Flags& flags,
                                         const ThreeDTrainer::Flags& mine) {
    Groups groups(ranks);
    const Record theirs = record_run<T>(config, *groups.group, &groups.node_memory, flags);
    const Record own = record_run<ThreeDTrainer>(config, *groups.group, &groups.node_memory, mine);
    if (groups.group->rank() == 0) require_none(differences(theirs, own, {}, config.optimizer));
  };
  require_same.operator()<DdpTrainer>(4, {}, flags_for(1, 1));
  require_same.operator()<Zero1Trainer>(4, {}, flags_for(1, 1, 1));
  require_same.operator()<TensorParallelTrainer>(4, {}, flags_for(4, 1));
  require_same.operator()<PipelineTrainer>(4, {}, flags_for(1, 4));
}

TEST_CASE("ZeRO-1 changes no bit of any arrangement") {
  const RunConfig config = split_config(GENERATE(DType::fp32, DType::bf16), 3);
  using enum Order;
  for (const auto& [tensor, pipeline, order] :
       {std::tuple<size_t, size_t, Order>{1, 2, one_f_one_b},
        {2, 1, one_f_one_b},
        {2, 2, one_f_one_b},
        {2, 2, zb_h1},
        {1, 2, interleaved},
        {1, 2, zb_v}}) {
    INFO(tensor << " tensor x " << pipeline << " pipeline, " << ladder::name_of(order));
    Groups groups(8);
    const auto run = [&](size_t zero_stage) {
      return record_run<ThreeDTrainer>(config, *groups.group, &groups.node_memory,
                                       flags_for(tensor, pipeline, zero_stage, order));
    };
    const Record whole = run(0), sharded = run(1);
    if (groups.group->rank() == 0) require_none(differences(whole, sharded, {}, config.optimizer));
  }
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<ThreeDTrainer>(split_config(DType::fp64, 2),
                                          {.pipeline_size = 2, .data_size = 2, .tensor_size = 2},
                                          flags_for(2, 2));
}

TEST_CASE("numbers of ranks that make no grid are refused, with one that does") {
  CHECK_THROWS_WITH(ThreeDTrainer::arrange(flags_for(2, 3), 8, 0),
                    ContainsSubstring("--tensor-parallel-size 2") &&
                        ContainsSubstring("--pipeline-parallel-size 3") &&
                        ContainsSubstring("8 ranks") && ContainsSubstring("12 ranks would do"));
  CHECK_THROWS_WITH(ThreeDTrainer::arrange(flags_for(2, 1), 1, 0),
                    ContainsSubstring("does not divide 1 rank; 2 ranks would do"));
  ThreeDTrainer::Flags shared = flags_for(2, 2);
  shared.context.size = 3;
  CHECK_THROWS_WITH(
      ThreeDTrainer::arrange(shared, 8, 0),
      ContainsSubstring("--context-parallel-size 3") && ContainsSubstring("12 ranks would do"));
  const ProcessGrid grid = ThreeDTrainer::arrange(flags_for(2, 2), 8, 5);
  CHECK(grid.data_size == 2);
  CHECK((grid.group_rank(Axis::pipeline) == 1 && grid.group_rank(Axis::data) == 0 &&
         grid.group_rank(Axis::tensor) == 1));
}

// Each axis alone, with three ranks or more where there can be, and all together.
TEST_CASE("a copy of a parameter that differs on any axis is found, and the rank named") {
  RunConfig gpt2 = split_config(DType::fp32, 1);
  gpt2.model.num_layers = 2;
  const RunConfig llama = with_llama_block(gpt2, 2);  // two of four ranks have the same head
  for (const auto& [is_llama, ranks, tensor, context, pipeline] :
       std::vector<std::array<size_t, 5>>{{0, 4, 1, 1, 1},
                                          {0, 4, 4, 1, 1},
                                          {0, 4, 1, 1, 4},
                                          {0, 8, 2, 1, 2},
                                          {0, 8, 2, 1, 1},
                                          {0, 8, 1, 2, 2},
                                          {1, 8, 4, 1, 2}}) {
    const RunConfig& config = is_llama == 1 ? llama : gpt2;
    for (size_t zero_stage : {0, 1}) {
      INFO(tensor << " tensor x " << context << " context x " << pipeline << " pipeline, " << ranks
                  << " ranks, ZeRO-" << zero_stage);
      ThreeDTrainer::Flags flags = flags_for(tensor, pipeline, zero_stage);
      flags.context.size = context;
      require_culprits_named<ThreeDTrainer>(
          config, ranks,
          [&](const ProcessGrid& grid) {
            ModelPartition part =
                plan_pipeline(config, grid, {})->operations_of(grid.group_rank(Axis::pipeline));
            part.tensor_rank = grid.group_rank(Axis::tensor);
            part.tensor_size = grid.tensor_size;
            return Layout(config.model, grid.size(grid.replicas()), part);
          },
          flags);
    }
  }
}

TEST_CASE("training begins with the weights of a file") {
  for (size_t zero_stage : {0, 1}) {
    require_weights_from_file<ThreeDTrainer>(split_config(DType::fp32, 2), 8,
                                             flags_for(2, 2, zero_stage));
  }
}

}  // namespace
}  // namespace ladder
