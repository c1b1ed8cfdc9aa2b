// Lesson 10: fp32 is lesson 02; bf16 and fp16 are near fp64, and alike on all ranks.
#include <cmath>

#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;
using Mixed = MixedPrecisionTrainer;

constexpr DType kLow[] = {DType::bf16, DType::fp16};

TEST_CASE("in fp32 and fp64 the bits of lessons 02 and 03") {
  for (DType dtype : {DType::fp32, DType::fp64}) {
    for (size_t ranks : {1, 3, 8}) {
      require_same_bits<DdpTrainer, Mixed>(dtype, ranks, Accumulation::rows);
    }
    require_same_bits<Zero1Trainer, Mixed>(dtype, 4, Accumulation::none, {},
                                           {.zero = {.stage = 1}});
  }
}

TEST_CASE("memory and communication are as predicted, and as the README says") {
  for (DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (DType reduce : {DType::fp32, DType::bf16}) {
      for (size_t zero_stage : {0, 1}) {
        const Mixed::Flags flags = {.zero = {.stage = zero_stage}, .reduce = {reduce}};
        RunConfig config = equivalence_config(dtype, 6);
        Groups groups(4);
        const Record record = record_run<Mixed>(config, *groups.group, &groups.node_memory, flags);
        INFO(name_of(dtype) << ", reduced in " << name_of(reduce) << ", ZeRO-" << zero_stage);
        CHECK(record.device_peak == record.prediction.device);
        CHECK(record.host_peak == record.prediction.host);
        for (const auto& [key, traffic] : record.prediction.step) {
          CHECK(record.communicated.at(key) == traffic.times(kSteps));
        }
        // Bytes for each parameter: x, 4, and 8 or 12 over the ranks that share them.
        const size_t p = Layout(config.model, 4).num_elements(), x = size_of(dtype);
        const MemoryUse& device = record.device_peak;
        CHECK(device[Category::parameters] == p * x);
        CHECK(device[Category::gradients] == p * 4);
        CHECK(device[Category::optimizer] == p * (x == 4 ? 8 : 12) / (zero_stage == 1 ? 4 : 1));
        CHECK(device[Category::communication] == (reduce == DType::fp32 ? 0 : p * 2));
        const Collective sums =
            zero_stage == 1 ? Collective::reduce_scatter : Collective::all_reduce;
        const TrafficEntries& step = record.prediction.step;
        CHECK(step.at({Purpose::gradient, sums}).payload_bytes == p * size_of(reduce));
        CHECK(step.size() == 1 + zero_stage);
        if (zero_stage == 0) continue;
        CHECK(step.at({Purpose::parameter, Collective::all_gather}).payload_bytes == p * x);
      }
    }
  }
}

TEST_CASE("gradients in bf16 and fp16 are near those of fp64") {
  const Record exact = record_oracle(equivalence_config(DType::fp64, 24));
  for (DType dtype : kLow) {
    Groups groups(2);
    const RunConfig config = equivalence_config(dtype, 12);
    // fp16's gradients are clear of its smallest numbers at this scale.
    const Record record = record_run<Mixed>(config, *groups.group, &groups.node_memory,
                                            {.scale = {.initial_scale = 4096}});
    INFO(name_of(dtype));
    if (groups.group->rank() == 0) require_none(low_precision_differences(exact, record, config));
  }
}

TEST_CASE("a loss scale that is a power of two changes no bit of bf16, and fp16 needs one") {
  const RunConfig bf16 = equivalence_config(DType::bf16, 6);
  Groups groups(2);
  const auto run = [&](const RunConfig& config, double scale) {
    return record_run<Mixed>(config, *groups.group, &groups.node_memory,
                             {.scale = {.loss_scale = scale}});
  };
  const Record plain = run(bf16, 1), scaled = run(bf16, 1024);
  // Without a scale much of what flows back in fp16 is below its smallest number.
  const RunConfig fp16 = equivalence_config(DType::fp16, 6);
  const Record tiny = run(fp16, 0x1p-10), right = run(fp16, 4096);
  const Record exact = record_oracle(equivalence_config(DType::fp64, 24));
  if (groups.group->rank() != 0) return;
  require_none(differences(plain, scaled, {}, bf16.optimizer));
  const std::string name = "grad.h.0.mlp.c_fc.weight";
  CHECK(tensor_error(exact, tiny, name) > 10 * tensor_error(exact, right, name));
  // A NaN between good numbers is an error too.
  Record spoiled = right;
  spoiled.tensors[0].at(name)[1] = std::nan("");
  CHECK(std::isnan(tensor_error(exact, spoiled, name)));
}

TEST_CASE("without masters small updates are lost") {
  Groups groups(2);
  RunConfig config = equivalence_config(DType::bf16, 6);
  // A weight of about 0.02 has its last bit at 1.2e-4: an update of 1e-5 is lost on all but those
  // below 1e-5 2^8 = 0.0026, a tenth of them.
  config.optimizer.learning_rate = 1e-5;
  config.optimizer.min_learning_rate = 1e-6;
  const auto run = [&](bool no_masters) {
    return record_run<Mixed>(config, *groups.group, &groups.node_memory,
                             {.no_master_weights = no_masters});
  };
  const Record with = run(false), without = run(true);
  if (groups.group->rank() != 0) return;
  const auto moved = [](const Record& record) {
    const auto& before = record.tensors.front().at("param.h.0.mlp.c_fc.weight");
    const auto& after = record.tensors.back().at("param.h.0.mlp.c_fc.weight");
    size_t count = 0;
    for (size_t i = 0; i < before.size(); ++i) count += before[i] != after[i];
    return static_cast<double>(count) / static_cast<double>(before.size());
  };
  CHECK(moved(with) > 0.99);
  CHECK(moved(without) < 0.2);
}

TEST_CASE("training begins with the weights of a file") {
  for (size_t zero_stage : {0, 1}) {
    require_weights_from_file<Mixed>(equivalence_config(DType::fp32, 3), 4,
                                     {.zero = {.stage = zero_stage}});
  }
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  require_culprits_named<Mixed>();
}

}  // namespace
}  // namespace ladder
