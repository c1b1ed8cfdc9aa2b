// Muon in the other lessons: parts of a matrix are shards, slices, shards of slices, or experts.

#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/15_expert_parallel/trainer.h"
#include "lessons/21_hybrid_shard/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/20_muon/muon.h"

namespace ladder {
namespace {

using namespace testing;

// The run is as predicted, and has the oracle's numbers. Its calls are `each` of every matrix.
template <class T>
void require_muon(const Record& oracle, const RunConfig& config, size_t ranks,
                  const typename T::Flags& flags = {}, size_t each = 1) {
  INFO(T::kLesson.info.name << ", " << ranks << " ranks");
  Groups groups(ranks);
  const Record record = require_predicted<T>(config, groups, flags);
  Session<T> session(config, *groups.group, &groups.node_memory, flags);
  session.trainer->step();
  const auto own = static_cast<double>(session.trainer->state().matrix_work().so_far);
  CHECK(sum_over(*groups.group, own) == static_cast<double>(each * num_matrices(config)));
  if (groups.group->rank() != 0) return;
  require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
}

TEST_CASE("shards of optimizer, gradients and parameters: lesson 01's numbers") {
  const Record oracle = record_oracle(with_muon(equivalence_config(DType::fp64, 24)));
  const RunConfig config = with_muon(equivalence_config(DType::fp64, 1));
  require_muon<Zero1Trainer>(oracle, config, 4);
  require_muon<Zero2Trainer>(oracle, config, 2);
  require_muon<Zero2Trainer>(oracle, config, 3);
  require_muon<Zero3Trainer>(oracle, config, 8);
  require_muon<Zero3Trainer>(oracle, config, 3);
  require_muon<HybridShardTrainer>(oracle, config, 4, {.shards = {.shard_size = 2}}, 2);
}

TEST_CASE("what is frozen has no home") {
  RunConfig config = with_muon(equivalence_config(DType::fp64, 24));
  config.model.frozen = frozen_names(config.model, "last-1");
  const Record oracle = record_oracle(config);
  config.micro_batch_size = 3;
  CHECK(num_matrices(config) == 6);
  require_muon<Zero3Trainer>(oracle, config, 4);
  require_muon<TensorParallelTrainer>(oracle, config, 2);
}

TEST_CASE("slices of a matrix: lesson 01's numbers, with copies of heads too") {
  for (const bool is_llama : {false, true}) {
    INFO((is_llama ? "Llama" : "GPT-2"));
    RunConfig whole = with_muon(split_config(DType::fp64, 24));
    if (is_llama) whole = with_llama_block(whole, 2);
    const Record oracle = record_oracle(whole);
    whole.micro_batch_size = 3;
    for (size_t ranks : {1, 2, 4}) require_muon<TensorParallelTrainer>(oracle, whole, ranks);
  }
}

TEST_CASE("shards of slices in stages: lesson 01's numbers") {
  for (const bool is_llama : {false, true}) {
    INFO((is_llama ? "Llama" : "GPT-2"));
    RunConfig config = with_muon(split_config(DType::fp64, 24));
    if (is_llama) config = with_llama_block(config, 1);
    const Record oracle = record_oracle(config);
    config.micro_batch_size = 2;
    for (const auto& [ranks, tensor, pipeline, zero_stage] :
         {std::tuple<size_t, size_t, size_t, size_t>{4, 2, 1, 1},
          {4, 2, 1, 0},
          {4, 1, 2, 1},
          {8, 2, 2, 1},
          {8, 4, 1, 1},
          {8, 2, 2, 0}}) {
      INFO(tensor << " tensor, " << pipeline << " pipeline, ZeRO-" << zero_stage);
      ThreeDTrainer::Flags flags;
      flags.tensor_parallel_size = tensor;
      flags.pipeline.pipeline_parallel_size = pipeline;
      flags.zero.stage = zero_stage;
      require_muon<ThreeDTrainer>(oracle, config, ranks, flags,
                                  zero_stage == 1 ? 1 : ranks / tensor / pipeline);
    }
  }
}

TEST_CASE("experts have homes among the ranks that have them") {
  const auto flags_with = [](size_t parallel_size, size_t zero_stage) {
    return ExpertParallelTrainer::Flags{
        .experts = {.experts = 8, .per_token = 2, .every = 1, .parallel_size = parallel_size},
        .zero = {.stage = zero_stage, .bucket_bytes = 20000}};
  };
  const auto config_for = [&](size_t micro_batch) {
    RunConfig config = with_muon(equivalence_config(DType::fp64, micro_batch));
    ExpertParallelTrainer::Flags flags = flags_with(1, 0);
    ExpertParallelTrainer::adjust(flags, config);
    return config;
  };
  Communicator alone{std::make_unique<OneRank>()};
  const Record oracle =
      record_run<ExpertParallelTrainer>(config_for(24), alone, nullptr, flags_with(1, 0));
  require_muon<ExpertParallelTrainer>(oracle, config_for(3), 4, flags_with(2, 1));
  require_muon<ExpertParallelTrainer>(oracle, config_for(3), 8, flags_with(4, 1));
  require_muon<ExpertParallelTrainer>(oracle, config_for(3), 4, flags_with(1, 1));
  // Without shards all ranks make all matrices orthogonal.
  require_muon<ExpertParallelTrainer>(oracle, config_for(3), 4, flags_with(1, 0), 4);
}

// A GPU keeps room for the communicators of all of them.
TEST_CASE("the ranks of a stage are counted among a rank's groups") {
  const auto num_groups = [](size_t zero_stage, bool is_muon) {
    RunConfig config = split_config(DType::fp32, 1);
    if (is_muon) config = with_muon(config);
    ThreeDFlags flags = {.tensor_parallel_size = 2};
    flags.pipeline.pipeline_parallel_size = 2;
    flags.zero.stage = zero_stage;
    return predict<ThreeDTrainer>(config, flags.arrange(8, 0), flags).num_groups;
  };
  // Tensor, data, two of the pipeline and the embedding; and the stage, whose shards of slices have
  // to come together for Muon.
  CHECK(num_groups(0, false) == 5);
  CHECK(num_groups(1, false) == 5);
  CHECK(num_groups(0, true) == 5);
  CHECK(num_groups(1, true) == 6);
}

}  // namespace
}  // namespace ladder
