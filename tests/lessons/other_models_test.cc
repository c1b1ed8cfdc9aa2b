// Models with another inner layer and a classifier of their own, in every lesson: lesson 01's
// gradients, parameters and moments, and memory and bytes as predicted.

#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "lessons/12_gradient_compression/trainer.h"
#include "lessons/13_sequence_parallel/trainer.h"
#include "lessons/14_context_parallel/trainer.h"
#include "lessons/16_pipeline_schedules/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/split.h"

namespace ladder {
namespace {

using namespace testing;

// Both can be divided among four ranks. The first inner layer is narrower than q, k and v, which
// share its workspace.
RunConfig config_with(size_t ffn, bool untied, size_t micro_batch_size) {
  RunConfig config = split_config(DType::fp64, micro_batch_size);
  config.model.ffn = ffn;
  config.model.untied = untied;
  return config;
}

struct Model {
  size_t ffn;
  bool untied;
};
constexpr Model kModels[] = {{52, false}, {0, true}, {160, true}};

template <class Body>
void for_models(Body body) {
  for (const Model& model : kModels) {
    INFO("inner layer " << model.ffn << (model.untied ? ", untied" : ""));
    const auto config = [&](size_t micro_batch_size) {
      return config_with(model.ffn, model.untied, micro_batch_size);
    };
    body(record_oracle(config(24)), config);
  }
}

TEST_CASE("lessons that share the batch") {
  for_models([](const Record& oracle, const auto& config) {
    require_split_run<DdpTrainer>(oracle, config(3), 4, {});
    require_split_run<Zero1Trainer>(oracle, config(3), 4, {});
    require_split_run<Zero2Trainer>(oracle, config(3), 4, {});
    require_split_run<Zero3Trainer>(oracle, config(3), 4, {});
    require_split_run<Zero3Trainer>(oracle, config(3), 4,
                                    {.gather = {.prefetch = 0, .keep_embedding = true}});
    require_split_run<OffloadTrainer>(oracle, config(3), 4, {});
    require_split_run<OffloadTrainer>(oracle, config(3), 4,
                                      {.zero_stage = 3, .offload_parameters = true, .gather = {}});
    require_split_run<MixedPrecisionTrainer>(oracle, config(3), 4, {.zero = {.stage = 1}});
    require_split_run<CompressionTrainer>(oracle, config(3), 4, {});
    require_split_run<ContextParallelTrainer>(oracle, config(6), 2, {});
  });
}

TEST_CASE("lessons that split the model") {
  for_models([](const Record& oracle, const auto& config) {
    require_split_run<TensorParallelTrainer>(oracle, config(6), 4, {});
    require_split_run<SequenceParallelTrainer>(oracle, config(6), 4, {});
    require_split_run<PipelineTrainer>(oracle, config(3), 4, {});
    for (Order order : {Order::interleaved, Order::zb_h1, Order::zb_v}) {
      INFO(ladder::name_of(order));
      ScheduleFlags flags;
      flags.order = order;
      require_split_run<ScheduleTrainer>(oracle, config(3), 2, flags);
      ThreeDTrainer::Flags grid = {.tensor_parallel_size = 2, .sequence_parallel = true};
      grid.pipeline.pipeline_parallel_size = 2;
      grid.pipeline.order = order;
      grid.zero.stage = 1;
      require_split_run<ThreeDTrainer>(oracle, config(3), 8, grid);
    }
  });
}

TEST_CASE("recomputation and offloading of activations") {
  for_models([](const Record& oracle, const auto& config) {
    for (const char* mode : {"cheap", "block", "whole", "every-2"}) {
      RunConfig again = config(3);
      again.recompute = parse_recompute(mode);
      require_split_run<PipelineTrainer>(oracle, again, 2, {});
    }
    RunConfig offloaded = config(3);
    offloaded.offload_activations = true;
    require_split_run<Zero3Trainer>(oracle, offloaded, 2, {});
  });
}

}  // namespace
}  // namespace ladder
