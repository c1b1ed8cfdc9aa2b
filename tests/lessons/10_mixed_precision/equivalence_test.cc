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
      if (first_scale_that_fits == 0) first_scale_that_fits = *result.loss_scale;
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

// Memory that says where allocations of a size lie.
class WatchedMemory : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    void* const pointer = memory_of(DeviceType::cpu).allocate(bytes);
    blocks_.emplace_back(static_cast<uint16_t*>(pointer), bytes);
    return pointer;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    memory_of(DeviceType::cpu).release(pointer, bytes);
  }
  // The first block of this size.
  uint16_t* find(size_t bytes) const {
    for (const auto& [pointer, size] : blocks_) {
      if (size == bytes) return pointer;
    }
    FAIL("nothing has " << bytes << " bytes");
    return nullptr;
  }
  // FNV-1a over all blocks of this size.
  uint64_t hash(size_t bytes) const {
    uint64_t result = 0xCBF29CE484222325;
    for (const auto& [pointer, size] : blocks_) {
      for (size_t i = 0; size == bytes && i < bytes / 2; ++i) {
        result = (result ^ pointer[i]) * 0x100000001B3;
      }
    }
    return result;
  }

 private:
  std::vector<std::pair<uint16_t*, size_t>> blocks_;
};

// The largest value of all ranks, and the smallest.
std::pair<double, double> extremes(Communicator& ranks, double value) {
  double both[] = {value, -value};
  Stream host(DeviceType::cpu);
  const TensorView view(both, DType::fp64, DeviceType::cpu, {2});
  ranks.all_reduce(host, view, {Purpose::control, Reduction::max}).wait(host);
  return {both[0], -both[1]};
}

// A weight of one rank is infinite during some steps, and so are this rank's gradients, alone.
TEST_CASE("50 steps with infinities on one rank: it is skipped on all, which stay the same") {
  constexpr uint16_t kInfinity = 0x7C00;
  RunConfig config = equivalence_config(DType::fp16, 6);
  config.optimizer.num_steps = 50;
  const Corpus corpus = Corpus::king_james();
  for (size_t zero_stage : {0, 1}) {
    INFO("ZeRO-" << zero_stage);
    Groups groups(4);
    Communicator& ranks = *groups.group;
    const ProcessGrid grid = {.data_size = ranks.size(), .rank = ranks.rank()};
    WatchedMemory source;
    Memory device(DeviceType::cpu, "device", 0, source), host(DeviceType::cpu, "host", 0);
    Stream stream(DeviceType::cpu);
    Mixed trainer({config, grid, corpus, device, host, stream, &ranks, nullptr},
                  {.scale = {.initial_scale = 4096, .window = 8, .hysteresis = 1},
                   .zero = {.stage = zero_stage}});
    const size_t p = Layout(config.model, 4).num_elements();
    uint16_t* const weight = source.find(p * 2) + 7;  // parameters in fp16
    int64_t num_updates = 0;
    double expected_scale = 4096, good_steps = 0;
    for (size_t step = 1; step <= 50; ++step) {
      const bool planted = step % 7 == 3 || step == 32;  // 31 and 32: twice in a row
      const bool is_culprit = planted && ranks.rank() == step % 4;
      const uint16_t kept = *weight;
      const uint64_t before = source.hash(p * 2);
      if (is_culprit) *weight = kInfinity;
      const StepResult result = trainer.step();
      if (is_culprit) *weight = kept;
      INFO("step " << step);
      CHECK(result.skipped == planted);
      CHECK(result.loss_scale == expected_scale);
      if (planted) CHECK(source.hash(p * 2) == before);
      if (!planted) {
        CHECK(source.hash(p * 2) != before);
        CHECK(result.learning_rate == learning_rate_at(config.optimizer, ++num_updates));
      }
      good_steps = planted ? 0 : good_steps + 1;
      if (planted) expected_scale /= 2;
      if (good_steps == 8) expected_scale *= 2, good_steps = 0;
      // Parameters, and where they are whole masters and moments, gradients too.
      for (size_t bytes : {p * 2, p * 4}) {
        if (bytes == p * 4 && zero_stage == 1) continue;  // gradients, each rank's own sums
        const auto [most, least] = extremes(ranks, static_cast<double>(source.hash(bytes) >> 11));
        CHECK(most == least);
      }
    }
    CHECK(num_updates == 42);
    CHECK_NOTHROW(trainer.check_replicas());
  }
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
