// Lesson 04 computes what lesson 01 computes; with one micro-batch a step, the bits of lesson 02.

#include "lessons/02_ddp/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("the gradients, parameters and moments of lesson 01") {
  require_equivalence<Zero2Trainer>();
}

TEST_CASE("in bf16 near lesson 01's fp64, with half the bytes of parameters") {
  require_low_precision<Zero2Trainer>();
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<Zero2Trainer>();
}

TEST_CASE("the bits of lesson 02 where a step is one micro-batch a rank") {
  for (DType dtype : {DType::fp32, DType::fp64}) {
    for (size_t ranks : {2, 3, 8}) {
      require_same_bits<DdpTrainer, Zero2Trainer>(dtype, ranks, Accumulation::none);
    }
  }
  require_same_bits<DdpTrainer, Zero2Trainer>(DType::bf16, 3, Accumulation::none);
}

TEST_CASE("with accumulation ranks are added before micro-batches: other bits, the same numbers") {
  Groups groups(4);
  const RunConfig config = equivalence_config(DType::fp64, 1);
  const Record a = record_run<DdpTrainer>(config, *groups.group, &groups.node_memory);
  const Record b = record_run<Zero2Trainer>(config, *groups.group, &groups.node_memory);
  if (groups.group->rank() != 0) return;
  CHECK(!differences(a, b, {}, config.optimizer).empty());
  require_none(differences(a, b, bounds_for(DType::fp64), config.optimizer));
}

TEST_CASE("memory and communication are as predicted, and these as the README says") {
  require_predicted<Zero2Trainer>(1);
  const RunConfig config = equivalence_config(DType::fp32, 1);
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    const Layout layout(config.model, ranks);
    const size_t p = layout.num_elements() * sizeof(float), micro_batches = 24 / ranks;
    const auto bytes = [&](Purpose purpose, Collective collective) {
      return predicted_bytes<Zero2Trainer>(config, ranks, purpose, collective);
    };
    CHECK(bytes(Purpose::gradient, Collective::reduce_scatter) == micro_batches * p);
    CHECK(bytes(Purpose::parameter, Collective::all_gather) == p);
    const MemoryUse device = predict<Zero2Trainer>(config, {.data_size = ranks}, {}).device;
    CHECK(device[Category::parameters] == p);
    CHECK(device[Category::gradients] == p / ranks);
    CHECK(device[Category::optimizer] == 2 * p / ranks);
    const size_t embedding = elements_of(layout, "wte");
    const size_t block = elements_of(layout, "h.0");  // the largest other one
    CHECK(device[Category::communication] == (embedding + 2 * block) * sizeof(float));
  }
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  require_culprits_named<Zero2Trainer>();
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<Zero2Trainer>(equivalence_config(DType::fp32, 3), 4);
}

}  // namespace
}  // namespace ladder
