// Lesson 05 computes what lesson 01 computes, and the bits of lesson 04.

#include "lessons/02_ddp/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("the gradients, parameters and moments of lesson 01") {
  require_equivalence<Zero3Trainer>();
}

TEST_CASE("in bf16 near lesson 01's fp64, with half the bytes of parameters") {
  require_low_precision<Zero3Trainer>();
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<Zero3Trainer>();
}

// Every way to gather.
const std::vector<GatherOptions> kVariants = {
    {.prefetch = 0},
    {.prefetch = 1},
    {.prefetch = 9},  // more than there are units
    {.prefetch = 0, .keep_embedding = true},
    {.prefetch = 2, .keep_embedding = true},
    {.prefetch = 1, .reshard_after_forward = false},
    {.prefetch = 1, .keep_embedding = true, .reshard_after_forward = false}};

TEST_CASE("the bits of lesson 04, however units are gathered") {
  for (const GatherOptions& gather : kVariants) {
    INFO("prefetch " << gather.prefetch << (gather.keep_embedding ? " keep embedding" : "")
                     << (gather.reshard_after_forward ? "" : " no reshard"));
    require_same_bits<Zero2Trainer, Zero3Trainer>(DType::fp32, 4, Accumulation::rows, {}, {gather});
  }
  for (DType dtype : {DType::fp32, DType::fp64}) {
    for (size_t ranks : {3, 8}) {
      require_same_bits<Zero2Trainer, Zero3Trainer>(dtype, ranks, Accumulation::rows);
    }
    require_same_bits<DdpTrainer, Zero3Trainer>(dtype, 2, Accumulation::none);
  }
  require_same_bits<Zero2Trainer, Zero3Trainer>(DType::bf16, 4, Accumulation::rows);
  require_same_bits<DdpTrainer, Zero3Trainer>(DType::bf16, 3, Accumulation::none);
}

TEST_CASE("memory and communication are as predicted, and these as the README says") {
  for (const GatherOptions& gather : kVariants) require_predicted<Zero3Trainer>(1, {gather});
  const RunConfig config = equivalence_config(DType::fp32, 1);
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    const Layout layout(config.model, ranks);
    const auto size_of_unit = [&](const std::string& unit) {
      return elements_of(layout, unit) * sizeof(float);
    };
    const size_t p = layout.num_elements() * sizeof(float), micro_batches = 24 / ranks;
    const size_t e = size_of_unit("wte");
    const size_t w = size_of_unit("wpe");
    const size_t u = size_of_unit("h.0");  // the largest but the token embedding
    for (size_t prefetch : {0, 1, 3}) {
      const Zero3Trainer::Flags flags = {{.prefetch = prefetch}};
      const auto bytes = [&](Purpose purpose, Collective collective) {
        return predicted_bytes<Zero3Trainer>(config, ranks, purpose, collective, flags);
      };
      CHECK(bytes(Purpose::gradient, Collective::reduce_scatter) == micro_batches * p);
      CHECK(bytes(Purpose::parameter, Collective::all_gather) == micro_batches * (2 * p - w));
      const MemoryUse device = predict<Zero3Trainer>(config, {.data_size = ranks}, flags).device;
      CHECK(device[Category::parameters] == p / ranks);
      CHECK(device[Category::gradients] == p / ranks);
      CHECK(device[Category::optimizer] == 2 * p / ranks);
      CHECK(device[Category::communication] == 2 * e + (2 + prefetch + 1) * u);
    }
    CHECK(predicted_bytes<Zero3Trainer>(config, ranks, Purpose::parameter, Collective::all_gather,
                                        {{.keep_embedding = true}}) ==
          micro_batches * (2 * p - w - e));
    CHECK(predicted_bytes<Zero3Trainer>(config, ranks, Purpose::parameter, Collective::all_gather,
                                        {{.reshard_after_forward = false}}) == micro_batches * p);
  }
}

TEST_CASE("no more units are gathered at a time than promised; evaluation changes nothing") {
  Groups groups(2);
  const RunConfig config = equivalence_config(DType::fp64, 3);
  for (const GatherOptions& gather : kVariants) {
    INFO("prefetch " << gather.prefetch << (gather.keep_embedding ? " keep embedding" : ""));
    Session<Zero3Trainer> session(config, *groups.group, &groups.node_memory, {gather});
    Zero3Trainer& trainer = *session.trainer;
    trainer.step();
    const double loss = trainer.evaluate(1);
    CHECK(trainer.evaluate(1) == loss);
    trainer.step();
    const size_t units = config.model.num_layers + 3;
    const size_t promised = gather.reshard_after_forward
                                ? gather.prefetch + 1 + (gather.keep_embedding ? 1 : 0)
                                : units;
    CHECK(trainer.most_gathered() <= promised);
    CHECK(trainer.most_gathered() >= std::min(promised, units) - 1);
  }
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<Zero3Trainer>(equivalence_config(DType::fp32, 3), 4);
}

}  // namespace
}  // namespace ladder
