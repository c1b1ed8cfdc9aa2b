// Lesson 10: fp32 is lesson 02; bf16 and fp16 are near fp64, and alike on all ranks.
#include <catch2/catch.hpp>
#include <cmath>

#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "tests/lessons/sharded.h"

namespace ladder {
namespace {

using namespace testing;
using Mixed = MixedPrecisionTrainer;

static_assert(Trainer<Mixed>);

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
        const Mixed::Flags flags = {.zero = {.stage = zero_stage}, .reduce_dtype = reduce};
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
        CHECK(record.prediction.step.at({Purpose::gradient, sums}).payload_bytes ==
              p * size_of(reduce));
      }
    }
  }
}

// The largest |difference| of a gradient, relative to its largest element.
double gradient_error(const Record& exact, const Record& rounded, const std::string& name) {
  const std::vector<double>& a = exact.tensors[0].at(name);
  const std::vector<double>& b = rounded.tensors[0].at(name);
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(a[i]));
  }
  return difference / largest;
}

TEST_CASE("gradients in bf16 and fp16 are near those of fp64") {
  const Record exact = record_oracle(equivalence_config(DType::fp64, 24));
  for (DType dtype : kLow) {
    Groups groups(2);
    const Record record =
        record_run<Mixed>(equivalence_config(dtype, 12), *groups.group, &groups.node_memory);
    if (groups.group->rank() != 0) continue;
    // A number passes about 40 roundings of u = 2^-9 (bf16) or 2^-12 (fp16) on its way through two
    // blocks and back. They add up like a random walk, sqrt(40) u = 6 u of its own size; elements
    // that are sums of cancelling terms lose more against the largest: a factor of 10.
    const double u = dtype == DType::bf16 ? 0x1p-9 : 0x1p-12;
    for (const auto& [name, values] : exact.tensors[0]) {
      if (!name.starts_with("grad.")) continue;
      INFO(name_of(dtype) << " " << name);
      CHECK(gradient_error(exact, record, name) <= 60 * u);
    }
    CHECK(std::abs(record.results[0].loss - exact.results[0].loss) <= 6 * u);
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
  CHECK(gradient_error(exact, tiny, name) > 10 * gradient_error(exact, right, name));
}

TEST_CASE("a step that overflows is skipped on all ranks, and costs no time of AdamW's") {
  RunConfig config = equivalence_config(DType::fp16, 6);
  config.optimizer.num_steps = 50;
  const Corpus corpus = Corpus::king_james();
  for (size_t zero_stage : {0, 1}) {
    Groups groups(4);
    const ProcessGrid grid = {.data_size = groups.group->size(), .rank = groups.group->rank()};
    Memory device(DeviceType::cpu, "device", 0), host(DeviceType::cpu, "host", 0);
    Stream stream(DeviceType::cpu);
    const TrainerContext context = {config, grid,   corpus,         device,
                                    host,   stream, &*groups.group, &groups.node_memory};
    // Far too large to begin with: it halves, step by step, until nothing overflows.
    Mixed trainer(context, {.scale = {.initial_scale = 0x1p30, .window = 8, .hysteresis = 1},
                            .zero = {.stage = zero_stage}});
    int64_t num_skipped = 0, num_updates = 0;
    double first_scale_that_fits = 0;
    for (int step = 0; step < 50; ++step) {
      const StepResult result = trainer.step();
      if (result.skipped) {
        ++num_skipped;
        CHECK(result.learning_rate == 0);
        continue;
      }
      if (first_scale_that_fits == 0) first_scale_that_fits = result.loss_scale;
      CHECK(result.learning_rate == learning_rate_at(config.optimizer, ++num_updates));
    }
    CHECK(num_skipped > 5);
    CHECK(first_scale_that_fits < 0x1p25);
    CHECK_NOTHROW(trainer.check_replicas());  // the same bits on all ranks
  }
}

TEST_CASE("an infinity on one rank skips the step on all") {
  Groups groups(4);
  RunConfig config = equivalence_config(DType::fp16, 6);
  const ProcessGrid grid = {.data_size = groups.group->size(), .rank = groups.group->rank()};
  const Corpus corpus = Corpus::king_james();
  Memory device(DeviceType::cpu, "device", 0), host(DeviceType::cpu, "host", 0);
  Stream stream(DeviceType::cpu);
  // Rank 2 alone reads rows with another weight: its loss scale is beyond fp16.
  const bool is_culprit = groups.group->rank() == 2;
  const TrainerContext context = {config, grid,   corpus,         device,
                                  host,   stream, &*groups.group, &groups.node_memory};
  Mixed trainer(context, {.scale = {.loss_scale = is_culprit ? 0x1p40 : 64}});
  const StepResult result = trainer.step();
  CHECK(result.skipped);
  CHECK_NOTHROW(trainer.check_replicas());
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

}  // namespace
}  // namespace ladder
