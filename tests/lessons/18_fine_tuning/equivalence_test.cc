// Lesson 18 with adapters: lesson 01's gradients however the ranks are arranged, a first step that
// is the frozen model's, and frozen weights that keep their bits.
#include "common/model/lora.h"
#include "common/model/train_choice.h"
#include "lessons/18_fine_tuning/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/split.h"

namespace ladder {
namespace {

using namespace testing;

// The run with adapters on all layers of a block. Weights decay enough to be seen.
RunConfig with_adapters(RunConfig config) {
  ModelConfig& model = config.model;
  const char* const all = model.is_gpt2() ? "qkv,proj,fc,mlp-proj" : "qkv,proj,gate,up,down";
  model.lora = {.rank = 3, .alpha = 7, .targets = lora_targets(model, all)};
  model.frozen = frozen_names(model, kTrainLora);
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.weight_decay = 1;
  config.optimizer.clip_norm = 0.01;  // a gradient of adapters is small at first
  return config;
}

FineTuningTrainer::Flags flags_for(size_t tensor, size_t zero_stage, bool sequence_parallel) {
  FineTuningTrainer::Flags flags;
  flags.tensor_parallel_size = tensor;
  flags.zero.stage = zero_stage;
  flags.sequence_parallel = sequence_parallel;
  return flags;
}

Record record_alone(const RunConfig& config) {
  Communicator alone{std::make_unique<OneRank>()};
  return record_run<FineTuningTrainer>(config, alone, nullptr, flags_for(1, 0, false));
}

bool is_zero(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

TEST_CASE("adapters get lesson 01's gradients, alone and on ranks that split batch and model") {
  const bool is_llama = GENERATE(false, true);
  const RunConfig plain = split_config(DType::fp64, 3);
  const RunConfig config = with_adapters(is_llama ? with_llama_block(plain, 2) : plain);
  const Record oracle = record_oracle(config);
  for (const auto& [ranks, tensor, zero_stage, sequence_parallel] : {std::tuple{1, 1, 0, false},
                                                                     {2, 1, 0, false},
                                                                     {4, 1, 1, false},
                                                                     {2, 2, 0, false},
                                                                     {4, 2, 1, false},
                                                                     {4, 4, 0, false},
                                                                     {2, 2, 0, true},
                                                                     {4, 4, 0, true}}) {
    INFO((is_llama ? "llama, " : "gpt2, ") << ranks << " ranks, tensor " << tensor << ", ZeRO-"
                                           << zero_stage << (sequence_parallel ? ", tokens" : ""));
    require_split_run<FineTuningTrainer>(
        oracle, config, static_cast<size_t>(ranks),
        flags_for(static_cast<size_t>(tensor), static_cast<size_t>(zero_stage), sequence_parallel));
  }
}

TEST_CASE("the first step is the frozen model's, and both factors learn from the second on") {
  if (world().rank() != 0) return;
  const RunConfig plain = equivalence_config(DType::fp32, 24), config = with_adapters(plain);
  const Record record = record_alone(config);
  // B is zero, so the adapters add zeros. The norm differs: that of fewer gradients.
  CHECK(record.results[0].loss == record_alone(plain).results[0].loss);
  size_t factors = 0;
  for (const auto& [name, first] : record.tensors[0]) {
    if (!name.starts_with("grad.")) continue;
    INFO(name);
    const bool is_a = name.ends_with("lora_A.weight");
    if (!is_adapter(name)) {
      FAIL("a gradient of what is frozen");
    }
    CHECK(is_zero(first) == is_a);
    CHECK_FALSE(is_zero(record.tensors[1].at(name)));
    CHECK_FALSE(is_zero(record.tensors[2].at("param." + name.substr(5))));
    ++factors;
  }
  CHECK(factors == 2 * 4 * config.model.num_layers);
}

TEST_CASE("frozen weights keep their bits, whatever decays") {
  if (world().rank() != 0) return;
  const RunConfig config = with_adapters(equivalence_config(DType::fp32, 24));
  const Record record = record_alone(config);
  size_t frozen = 0;
  for (const auto& [name, first] : record.tensors[0]) {
    if (!name.starts_with("param.") || is_adapter(name)) continue;
    INFO(name << " is frozen, and changes");
    CHECK(first == record.tensors[kSteps - 1].at(name));
    ++frozen;
  }
  CHECK(frozen == 4 + 12 * config.model.num_layers);
}

TEST_CASE("ranks that exchange nothing are found out") {
  FineTuningTrainer::Flags flags = flags_for(2, 0, false);
  const RunConfig config = with_adapters(split_config(DType::fp64, 3));
  const Record oracle = record_oracle(config);
  const Record record = record_unconnected<FineTuningTrainer>(config, {.tensor_size = 2}, flags);
  if (world().rank() != 0) return;
  CHECK(differences(oracle, record, bounds_for(config.dtype), config.optimizer).size() > 20);
}

}  // namespace
}  // namespace ladder
