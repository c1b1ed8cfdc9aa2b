// Lesson 03 computes what lessons 01 and 02 compute, with less memory.

#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("the gradients, parameters and moments of lesson 01") {
  require_equivalence<Zero1Trainer>();
}

TEST_CASE("in bf16 near lesson 01's fp64, with half the bytes of parameters") {
  require_low_precision<Zero1Trainer>();
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<Zero1Trainer>();
}

TEST_CASE("the bits of lesson 02, with accumulation and without") {
  for (DType dtype : {DType::fp32, DType::fp64}) {
    for (size_t ranks : {2, 3, 8}) {
      for (Accumulation accumulation : {Accumulation::none, Accumulation::rows}) {
        require_same_bits<DdpTrainer, Zero1Trainer>(dtype, ranks, accumulation);
      }
    }
  }
  require_same_bits<DdpTrainer, Zero1Trainer>(DType::bf16, 3, Accumulation::rows);
}

TEST_CASE("memory and communication are as predicted, and these as the README says") {
  const RunConfig config = equivalence_config(DType::fp32, 1);
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    const size_t p = Layout(config.model, ranks).num_elements() * sizeof(float);
    const auto bytes = [&](Purpose purpose, Collective collective) {
      return predicted_bytes<Zero1Trainer>(config, ranks, purpose, collective);
    };
    CHECK(bytes(Purpose::gradient, Collective::reduce_scatter) == p);
    CHECK(bytes(Purpose::parameter, Collective::all_gather) == p);
    const MemoryUse device = predict<Zero1Trainer>(config, {.data_size = ranks}, {}).device;
    CHECK(device[Category::parameters] == p);
    CHECK(device[Category::gradients] == p);
    CHECK(device[Category::optimizer] == 2 * p / ranks);
    CHECK(device[Category::communication] == 0);
  }
  require_predicted<Zero1Trainer>(1);
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  require_culprits_named<Zero1Trainer>();
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<Zero1Trainer>(equivalence_config(DType::fp32, 3), 4);
}

}  // namespace
}  // namespace ladder
