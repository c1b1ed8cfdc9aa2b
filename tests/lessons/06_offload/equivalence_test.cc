// Lesson 06 computes what lesson 01 computes, and the bits of lesson 04.

#include "lessons/04_zero2/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

OffloadTrainer::Flags stage3(bool offload_parameters, const GatherOptions& gather = {}) {
  return {.zero_stage = 3, .offload_parameters = offload_parameters, .gather = gather};
}

const std::vector<OffloadTrainer::Flags> kVariants = {
    OffloadTrainer::Flags(),
    stage3(false),
    stage3(true),
    stage3(true, {.prefetch = 0}),
    stage3(true, {.prefetch = 2, .keep_embedding = true}),
    stage3(true, {.prefetch = 1, .reshard_after_forward = false})};

TEST_CASE("the gradients, parameters and moments of lesson 01") {
  require_equivalence<OffloadTrainer>();
  require_equivalence<OffloadTrainer>(stage3(true));
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<OffloadTrainer>();
}

TEST_CASE("the bits of lesson 04, with accumulation and without, wherever the state lies") {
  for (const OffloadTrainer::Flags& flags : kVariants) {
    INFO("stage " << flags.zero_stage << (flags.offload_parameters ? " parameters" : "")
                  << " prefetch " << flags.gather.prefetch);
    require_same_bits<Zero2Trainer, OffloadTrainer>(DType::fp32, 4, Accumulation::rows, {}, flags);
    require_same_bits<Zero2Trainer, OffloadTrainer>(DType::fp64, 3, Accumulation::none, {}, flags);
  }
}

TEST_CASE("memory and communication are as predicted, and these as the README says") {
  for (const OffloadTrainer::Flags& flags : kVariants) {
    require_predicted<OffloadTrainer>(1, flags);
    const RunConfig config = equivalence_config(DType::fp32, 1);
    for (size_t ranks : {1, 2, 3, 4, 8}) {
      const Layout layout(config.model, ranks);
      const auto size_of_unit = [&](const std::string& unit) {
        return elements_of(layout, unit) * sizeof(float);
      };
      const size_t p = layout.num_elements() * sizeof(float);
      const size_t e = size_of_unit("wte");
      const size_t u = size_of_unit("h.0");  // the largest but the token embedding
      const Prediction prediction = predict<OffloadTrainer>(config, {.data_size = ranks}, flags);
      const MemoryUse &device = prediction.device, &host = prediction.host;
      // The optimizer updates the parameters that are on the host, or else a copy of its own.
      CHECK(host[Category::parameters] == (flags.offload_parameters ? p / ranks : 0));
      CHECK(host[Category::gradients] == p / ranks);
      CHECK(host[Category::optimizer] == (flags.offload_parameters ? 2 : 3) * p / ranks);
      CHECK(device[Category::gradients] == 0);
      CHECK(device[Category::optimizer] == 0);
      CHECK(device[Category::parameters] == (flags.zero_stage == 2      ? p
                                             : flags.offload_parameters ? 0
                                                                        : p / ranks));
      size_t gathered = 0;
      if (flags.zero_stage == 3) {
        gathered = flags.gather.reshard_after_forward ? e + (flags.gather.prefetch + 1) * u : p;
      }
      CHECK(device[Category::communication] == e + 3 * u + gathered);
      // What is sent is lesson 04's or 05's.
      const size_t micro_batches = 24 / ranks, w = size_of_unit("wpe");
      const size_t twice = 2 * p - w - (flags.gather.keep_embedding ? e : 0);
      const size_t parameters = flags.zero_stage == 2                ? p
                                : flags.gather.reshard_after_forward ? micro_batches * twice
                                                                     : micro_batches * p;
      const auto bytes = [&](Purpose purpose, Collective collective) {
        return prediction.step.at({purpose, collective}).payload_bytes;
      };
      CHECK(bytes(Purpose::gradient, Collective::reduce_scatter) == micro_batches * p);
      CHECK(bytes(Purpose::parameter, Collective::all_gather) == parameters);
    }
  }
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  require_culprits_named<OffloadTrainer>();
}

TEST_CASE("training begins with the weights of a file") {
  for (const OffloadTrainer::Flags& flags :
       {OffloadTrainer::Flags(), stage3(false), stage3(true)}) {
    require_weights_from_file<OffloadTrainer>(equivalence_config(DType::fp32, 3), 4, flags);
  }
}

}  // namespace
}  // namespace ladder
