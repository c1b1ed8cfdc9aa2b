// Low-rank adapters in every trainer: the gradients, parameters and moments of lesson 01 with the
// same adapters, and memory and bytes as predicted.
#include "common/model/lora.h"

#include <algorithm>

#include "common/model/train_choice.h"
#include "tests/catch.h"
#include "tests/lessons/all_trainers.h"
#include "tests/lessons/split.h"

namespace ladder {
namespace {

using namespace testing;

// Clipping is active: the norm of adapters' gradients is about 0.1. A large rate makes B large in
// the steps after the first, in which A has no gradient.
RunConfig adapted(RunConfig config, const std::string& targets) {
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.clip_norm = 0.05;
  config.model.lora = {.rank = 4, .alpha = 12, .targets = lora_targets(config.model, targets)};
  config.model.frozen = frozen_names(config.model, kTrainLora);
  return config;
}

RunConfig gpt2_config(size_t micro_batch, DType dtype = DType::fp64) {
  return adapted(split_config(dtype, micro_batch), "qkv,proj,fc,mlp-proj");
}

// Two heads of k and v, so that four ranks have copies of them.
RunConfig llama_config(size_t micro_batch, DType dtype = DType::fp64) {
  RunConfig config = with_llama_block(split_config(dtype, micro_batch), 2, QkNorm::rmsnorm);
  config.model.biases = Biases::none;
  return adapted(config, "q_proj,v_proj,proj,up,down");
}

template <class T>
void require_same(const Record& oracle, const RunConfig& config, size_t ranks,
                  const typename T::Flags& flags = {}) {
  INFO(T::kLesson.info.name << " on " << ranks << " ranks, "
                            << (config.model.is_gpt2() ? "GPT-2" : "Llama"));
  require_split_run<T>(oracle, config, ranks, flags);
}

// Lessons in which ranks share the batch.
void require_data_parallel(const Record& oracle, const RunConfig& config) {
  require_same<DdpTrainer>(oracle, config, 2, {.bucket_bytes = 4096});
  require_same<Zero1Trainer>(oracle, config, 2);
  require_same<Zero2Trainer>(oracle, config, 4);
  require_same<Zero3Trainer>(oracle, config, 4);
  require_same<OffloadTrainer>(oracle, config, 2);
  require_same<OffloadTrainer>(oracle, config, 2,
                               {.zero_stage = 3, .offload_parameters = true, .gather = {}});
}

// Those in which ranks share the layers.
void require_tensor_parallel(const Record& oracle, const RunConfig& config) {
  require_same<TensorParallelTrainer>(oracle, config, 2);
  require_same<TensorParallelTrainer>(oracle, config, 4);
  require_same<SequenceParallelTrainer>(oracle, config, 4);
  require_same<SequenceParallelTrainer>(oracle, config, 2,
                                        {.tensor = {}, .tokens = {.gathered = "keep"}});
  ThreeDTrainer::Flags split;
  split.tensor_parallel_size = 2;
  for (const int stage : {0, 1}) {
    split.zero.stage = stage;
    split.sequence_parallel = stage == 1;
    require_same<ThreeDTrainer>(oracle, config, 4, split);
  }
}

TEST_CASE("on ranks that share the batch") {
  require_data_parallel(record_oracle(gpt2_config(24)), gpt2_config(6));
  require_data_parallel(record_oracle(llama_config(24)), llama_config(6));
}

TEST_CASE("on ranks that share the layers: factors that all have are summed") {
  require_tensor_parallel(record_oracle(gpt2_config(24)), gpt2_config(6));
  require_tensor_parallel(record_oracle(llama_config(24)), llama_config(6));
}

TEST_CASE("with recomputation, context parallelism and one stage") {
  const auto require_all = [](const RunConfig& whole, RunConfig config) {
    const Record oracle = record_oracle(whole);
    require_same<PipelineTrainer>(oracle, config, 1);
    require_same<ContextParallelTrainer>(oracle, config, 2);
    require_same<ElasticTrainer>(oracle, config, 2);
    for (const Order order : {Order::one_f_one_b, Order::zb_h1}) {
      require_same<ScheduleTrainer>(oracle, config, 1, {.order = order});
    }
    for (const char* mode : {"cheap", "attention", "mlp", "block", "whole", "every-2"}) {
      config.recompute = parse_recompute(mode);
      require_same<CheckpointingTrainer>(oracle, config, 1);
    }
    require_same<TensorParallelTrainer>(oracle, config, 2);
  };
  require_all(gpt2_config(24), gpt2_config(12));
  require_all(llama_config(24), llama_config(12));
}

// All stages run backward; that of the embeddings does nothing. Adapters of the heads' last layers
// alone get their gradients in backward's first half.
TEST_CASE("on the stages of a pipeline, in every schedule") {
  for (const RunConfig& config : {gpt2_config(3), llama_config(3)}) {
    RunConfig whole = config;
    whole.micro_batch_size = 24;
    const Record oracle = record_oracle(whole);
    require_same<PipelineTrainer>(oracle, config, 2);
    require_same<PipelineTrainer>(oracle, config, 4, {.schedule = ScheduleKind::gpipe});
    // The first stage has embeddings alone, of which no gradient is wanted.
    require_same<PipelineTrainer>(oracle, config, 2, {.stage_layers = {0, 4}});
    for (const Order order : kOrders)
      require_same<ScheduleTrainer>(oracle, config, 2, {.order = order});
    ThreeDTrainer::Flags grid;
    grid.tensor_parallel_size = grid.pipeline.pipeline_parallel_size = 2;
    for (const Order order : {Order::one_f_one_b, Order::zb_h1}) {
      for (const bool splits_tokens : {false, true}) {
        grid.pipeline.order = order;
        grid.sequence_parallel = splits_tokens;
        require_same<ThreeDTrainer>(oracle, config, 4, grid);
      }
    }
  }
}

TEST_CASE("in bf16 near lesson 01's fp64") {
  const Record exact = record_oracle(gpt2_config(24));
  Groups groups(2);
  const RunConfig config = gpt2_config(3, DType::bf16);
  const Record record = record_run<MixedPrecisionTrainer>(
      config, *groups.group, &groups.node_memory, {.reduce = {.dtype = DType::bf16}});
  require_as_predicted(record);
  for (size_t step = 0; step < kSteps; ++step) {
    CHECK(record.results[step].loss == Approx(exact.results[step].loss).epsilon(1e-3));
  }
}

TEST_CASE("the first loss is the frozen model's, to the bit, and the next is smaller") {
  if (world().rank() != 0) return;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const RunConfig& config : {gpt2_config(24, dtype), llama_config(24, dtype)}) {
      RunConfig plain = config;
      plain.model.lora.reset();
      plain.model.frozen = {};
      const Record with = record_oracle(config), without = record_oracle(plain);
      CHECK(with.results[0].loss == without.results[0].loss);
      CHECK(with.results[0].grad_norm < without.results[0].grad_norm);
      CHECK(with.validation_losses[1] < with.validation_losses[0]);
    }
  }
}

// Of what is frozen nothing can differ, but the gradient of every adapter does.
TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  const RunConfig config = gpt2_config(24);
  const Record oracle = record_oracle(config);
  const Record alone = record_unconnected<TensorParallelTrainer>(config, {.tensor_size = 2});
  if (world().rank() % 2 != 0) return;
  const auto found = differences(oracle, alone, bounds_for(DType::fp64), config.optimizer);
  for (const auto& [name, values] : oracle.tensors[0]) {
    if (!name.starts_with("grad.")) continue;
    const std::string difference = concat("step 2: ", name);
    CHECK(std::ranges::any_of(
        found, [&](const std::string& text) { return text.starts_with(difference); }));
  }
}

TEST_CASE("gradients and moments are those of adapters, and so is what ranks send") {
  const RunConfig config = gpt2_config(3, DType::fp32);
  // Each block has adapters of four layers, with their inputs and outputs.
  const size_t c = 32, columns = (c + 3 * c) + (c + c) + (c + 4 * c) + (4 * c + c);
  const size_t bytes = 4 * config.model.lora->rank * columns * sizeof(float);
  for (const size_t n : {1, 2, 4}) {
    const Prediction ddp = predict<DdpTrainer>(config, {.data_size = n}, {});
    CHECK(ddp.device[Category::gradients] == bytes);
    CHECK(ddp.device[Category::optimizer] == 2 * bytes);
    const Prediction zero = predict<Zero2Trainer>(config, {.data_size = n}, {});
    CHECK(zero.device[Category::gradients] == bytes / n);
    CHECK(zero.device[Category::optimizer] == 2 * bytes / n);
    if (n == 1) continue;
    const TrafficKey sums = {Purpose::gradient, Collective::all_reduce};
    CHECK(ddp.step.at(sums).payload_bytes == bytes);
    // Of the factors that ranks have copies of, each sends 2 (n - 1) / n.
    const Prediction tensor = predict<TensorParallelTrainer>(config, {.tensor_size = n}, {});
    const size_t copied = 4 * config.model.lora->rank * (c + c + c + c) * sizeof(float);
    const TrafficKey sends = {Purpose::gradient, Collective::send, Axis::tensor};
    CHECK(tensor.step.at(sends).payload_bytes == 2 * (n - 1) * copied / n);
    CHECK(tensor.device[Category::gradients] == copied + (bytes - copied) / n);
    RunConfig all = config;
    all.model.lora.reset();
    all.model.frozen = {};
    const TrafficKey activations = {Purpose::activation, Collective::all_reduce, Axis::tensor};
    // No collective is there for adapters alone.
    const Prediction whole = predict<TensorParallelTrainer>(all, {.tensor_size = n}, {});
    CHECK(tensor.step.at(activations).calls == whole.step.at(activations).calls);
    CHECK(tensor.step.at(activations).payload_bytes == whole.step.at(activations).payload_bytes);
  }
}

}  // namespace
}  // namespace ladder
