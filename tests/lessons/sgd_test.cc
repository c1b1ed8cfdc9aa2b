// SGD on ranks that share its state: lesson 01's numbers, and one tensor in memory.
#include "lessons/03_zero1/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig with_sgd(RunConfig config, double momentum = 0.9) {
  config.optimizer.name = "sgd";
  config.optimizer.momentum = momentum;
  config.optimizer.nesterov = momentum > 0;
  config.optimizer.learning_rate = 0.1;
  return config;
}

template <class T>
void require_sgd(const typename T::Flags& flags = {}) {
  for (const double momentum : {0.9, 0.0}) {
    const Record oracle = record_oracle(with_sgd(equivalence_config(DType::fp64, 24), momentum));
    for (size_t ranks : {2, 3}) {
      INFO(ranks << " ranks, momentum " << momentum);
      Groups groups(ranks);
      const RunConfig config = with_sgd(equivalence_config(DType::fp64, 1), momentum);
      const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
      require_as_predicted(record);
      if (groups.group->rank() != 0) continue;
      require_none(differences(oracle, record, bounds_for(DType::fp64), config.optimizer));
      const auto& tensors = record.tensors.back();
      CHECK(tensors.contains("momentum.wte.weight") == (momentum > 0));
      CHECK_FALSE(tensors.contains("exp_avg.wte.weight"));
      const auto moved = tensors.at("param.wte.weight");
      CHECK(moved != record.tensors.front().at("param.wte.weight"));
    }
  }
}

TEST_CASE("in shards of the optimizer's state: lesson 01's numbers") {
  require_sgd<Zero1Trainer>();
}
TEST_CASE("in shards of all: lesson 01's numbers") { require_sgd<Zero3Trainer>(); }
TEST_CASE("on the host: lesson 01's numbers") {
  require_sgd<OffloadTrainer>();
  require_sgd<OffloadTrainer>({.zero_stage = 3, .offload_parameters = true, .gather = {}});
}

TEST_CASE("the state is one tensor, none without momentum, and masters where there are some") {
  for (size_t ranks : {1, 2, 3, 8}) {
    const size_t p =
        Layout(equivalence_config(DType::fp32, 1).model, ranks).num_elements() * sizeof(float);
    const auto predicted = [&]<class T>(DType dtype, double momentum) {
      return predict<T>(with_sgd(equivalence_config(dtype, 1), momentum), {.data_size = ranks}, {});
    };
    for (const double momentum : {0.0, 0.9}) {
      CAPTURE(ranks, momentum);
      const size_t state = momentum > 0 ? p / ranks : 0;
      const auto zero1 = [&](DType dtype) {
        return predicted.operator()<Zero1Trainer>(dtype, momentum).device[Category::optimizer];
      };
      CHECK(zero1(DType::fp32) == state);
      CHECK(zero1(DType::bf16) == state + p / ranks);
      const Prediction offloaded = predicted.operator()<OffloadTrainer>(DType::fp32, momentum);
      CHECK(offloaded.host[Category::optimizer] == state + p / ranks);
      CHECK(offloaded.device[Category::optimizer] == 0);
    }
  }
}

TEST_CASE("in bf16 masters are updated: near lesson 01's fp64, memory and bytes as predicted") {
  const Record exact = record_oracle(with_sgd(equivalence_config(DType::fp64, 24)));
  const RunConfig config = with_sgd(equivalence_config(DType::bf16, 4));
  Groups groups(2);
  const Record record = require_predicted<Zero1Trainer>(config, groups);
  if (groups.group->rank() != 0) return;
  // A number in bf16 is off by typical_rounding() of itself, and the loss is a mean of 384 of them.
  for (size_t step = 0; step < kSteps; ++step) {
    const double loss = exact.results[step].loss;
    CHECK(std::abs(record.results[step].loss - loss) < typical_rounding(DType::bf16) * loss);
  }
}

}  // namespace
}  // namespace ladder
