// --recompute and --offload-activations in the lessons: every mode gives the bits of none, and
// memory and bytes are as predicted.

#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/split.h"

namespace ladder {
namespace {

using namespace testing;

using Modes = std::vector<std::string>;
const Modes kModes = {"cheap", "attention", "mlp", "block", "whole", "every-2", "offloaded block"};

// A mode of --recompute, or "offloaded" and one: then what is kept waits on the host.
RunConfig with_mode(RunConfig config, const std::string& mode) {
  const std::string offloaded = "offloaded ";
  config.offload_activations = mode.starts_with(offloaded);
  config.recompute =
      parse_recompute(config.offload_activations ? mode.substr(offloaded.size()) : mode);
  return config;
}

// The modes have the bits of none on a group of all ranks, after every step.
template <class T>
void require_bits_of_none(const RunConfig& config, const typename T::Flags& flags = {},
                          const Modes& modes = kModes) {
  const auto run = [&](const std::string& mode) {
    Groups groups(world().size());  // anew, since they count what is communicated
    return record_run<T>(with_mode(config, mode), *groups.group, &groups.node_memory, flags);
  };
  const Record none = run("none");
  for (const std::string& mode : modes) {
    INFO(T::kLesson.info.name << ", " << name_of(config.dtype) << ", --recompute " << mode);
    const Record record = run(mode);
    require_as_predicted(record);
    if (world().rank() == 0) require_none(differences(none, record, {}, config.optimizer));
  }
}

TEST_CASE("lesson 01: the bits of none, in every dtype, with and without accumulation") {
  if (world().rank() != 0) return;
  Communicator alone{std::make_unique<OneRank>()};
  for (DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (size_t micro_batch : {3, 24}) {
      RunConfig config = split_config(dtype, micro_batch);
      config.model.num_layers = 5;  // every-2 has a group of one
      const Record none = record_run<SingleGpuTrainer>(config, alone, nullptr);
      for (const std::string mode : {"cheap", "attention", "mlp", "block", "every-2", "every-5",
                                     "offloaded none", "offloaded mlp", "offloaded every-2"}) {
        INFO(name_of(dtype) << ", micro-batch " << micro_batch << ", --recompute " << mode);
        const Record record = record_run<SingleGpuTrainer>(with_mode(config, mode), alone, nullptr);
        require_none(differences(none, record, {}, config.optimizer));
        require_as_predicted(record);
      }
    }
  }
}

TEST_CASE("lessons that share the batch: the bits of none, and memory and bytes as predicted") {
  const RunConfig config = split_config(DType::fp64, 3);  // two micro-batches a rank
  require_bits_of_none<DdpTrainer>(config, {}, {"block", "every-2", "offloaded none"});
  require_bits_of_none<Zero1Trainer>(config, {}, {"block"});
  require_bits_of_none<Zero2Trainer>(config, {}, {"block", "every-2"});
  require_bits_of_none<Zero3Trainer>(config);
  for (size_t prefetch : {0, 3}) {
    require_bits_of_none<Zero3Trainer>(config, {.gather = {.prefetch = prefetch}},
                                       {"block", "every-2", "every-4"});
  }
  require_bits_of_none<Zero3Trainer>(
      config, {.gather = {.keep_embedding = true, .reshard_after_forward = false}},
      {"block", "every-2"});
  require_bits_of_none<OffloadTrainer>(config, {}, {"block"});
  require_bits_of_none<OffloadTrainer>(config,
                                       {.zero_stage = 3, .offload_parameters = true, .gather = {}},
                                       {"cheap", "every-2", "offloaded cheap"});
  require_bits_of_none<MixedPrecisionTrainer>(split_config(DType::fp16, 3), {},
                                              {"mlp", "block", "every-2"});
}

TEST_CASE("lessons that split the model: the bits of none, and memory and bytes as predicted") {
  const RunConfig config = split_config(DType::fp64, 3);  // eight micro-batches
  require_bits_of_none<TensorParallelTrainer>(config);
  require_bits_of_none<TensorParallelTrainer>(split_config(DType::bf16, 24), {}, {"block"});
  for (ScheduleKind kind : {ScheduleKind::naive, ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    require_bits_of_none<PipelineTrainer>(config, {.schedule = kind},
                                          {"attention", "block", "offloaded none"});
  }
  RunConfig uneven = config;
  uneven.model.num_layers = 9;
  require_bits_of_none<PipelineTrainer>(uneven, {.stage_layers = {0, 4, 3, 2}},
                                        {"every-2", "offloaded attention", "offloaded every-2"});
  ThreeDTrainer::Flags flags = {.tensor_parallel_size = 2};
  require_bits_of_none<ThreeDTrainer>(config, flags, {"block", "every-4"});
  flags.pipeline.pipeline_parallel_size = 2;
  flags.zero.stage = 1;
  require_bits_of_none<ThreeDTrainer>(config, flags);
}

TEST_CASE("ZeRO-3 gathers a recomputed unit once more only if others were read in between") {
  const auto gathers = [](const std::string& mode, const GatherOptions& gather = {}) {
    const RunConfig config = with_mode(split_config(DType::fp32, 6), mode);
    return predict<Zero3Trainer>(config, {.data_size = 4}, {.gather = gather})
        .step.at({Purpose::parameter, Collective::all_gather})
        .calls;
  };
  // Forward reads two embeddings, four blocks, the final norm and the classifier's wte; backward
  // the final norm and four blocks.
  CHECK(gathers("none") == 13);
  CHECK(gathers("block") == 13);
  CHECK(gathers("mlp") == 13);
  CHECK(gathers("every-2") == 13 + 1);  // h.0; nothing overwrites what h.2 and h.3 dropped
  CHECK(gathers("every-4") == 13);      // nothing is overwritten
  CHECK(gathers("every-2", {.reshard_after_forward = false}) == 7);
}

TEST_CASE("tensor ranks sum again what runs again, and a pipeline holds a boundary per block") {
  const auto sums = [](const std::string& mode) {
    const RunConfig config = with_mode(split_config(DType::fp32, 24), mode);
    return predict<TensorParallelTrainer>(config, {.tensor_size = 4}, {})
        .step.at({Purpose::activation, Collective::all_reduce, Axis::tensor})
        .calls;
  };
  CHECK(sums("cheap") == sums("none"));
  CHECK(sums("attention") == sums("none"));
  CHECK(sums("mlp") == sums("none"));
  CHECK(sums("block") == sums("none") + 3);        // `middle` of all blocks but the last
  CHECK(sums("whole") == sums("none") + 4 + 4);    // `middle` and `out` of all blocks
  CHECK(sums("every-4") == sums("none"));          // all is still there
  CHECK(sums("every-2") == sums("none") + 2 + 1);  // `middle` of h.0 and h.1, and h.0's `out`

  const auto activations = [](const std::string& mode, size_t stage) {
    const RunConfig config = with_mode(split_config(DType::fp32, 1), mode);
    return predict<PipelineTrainer>(config, {.pipeline_size = 2, .rank = stage}, {})
        .device[Category::activations];
  };
  // 1F1B: the first stage has two micro-batches of R = 16 rows in flight, each with the input and
  // the outputs of its two blocks (block), or of its one group of two (every-2).
  const size_t boundary = 16 * 32 * sizeof(float);
  CHECK(activations("block", 0) == 2 * 3 * boundary);
  CHECK(activations("every-2", 0) == 2 * 2 * boundary);
  CHECK(activations("every-2", 1) == 3 * boundary + 2 * 16 * sizeof(float));  // and the final norm
}

TEST_CASE("every-K with K above the blocks of a stage is refused on all ranks") {
  const RunConfig config = with_mode(split_config(DType::fp32, 3), "every-3");
  for (size_t stage : {0, 1}) {
    CHECK_THROWS_WITH(predict<PipelineTrainer>(config, {.pipeline_size = 2, .rank = stage},
                                               {.stage_layers = {3, 1}}),
                      "--recompute every-3: a rank has only 1 transformer block; every-1 would do");
  }
}

}  // namespace
}  // namespace ladder
