// Lesson 21 computes what lesson 01 computes, with the bits of lesson 05 where one group has all
// ranks, or where groups are machines, and those of lesson 02 where each rank has a copy.

#include <random>

#include "lessons/02_ddp/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/21_hybrid_shard/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/watched_memory.h"
#include "tests/lessons/weights.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;
using Hybrid = HybridShardTrainer;

Hybrid::Flags of_size(size_t shard_size) { return {.shards = {.shard_size = shard_size}}; }

// What axis `axis` moves of one purpose in a step, as predicted for this rank.
Traffic predicted(const RunConfig& config, size_t ranks, const Hybrid::Flags& flags,
                  const TrafficKey& key) {
  const Prediction prediction = predict<Hybrid>(config, Hybrid::arrange(flags, ranks, 0), flags);
  const auto found = prediction.step.find(key);
  return found == prediction.step.end() ? Traffic() : found->second;
}
constexpr TrafficKey kGathers = {Purpose::parameter, Collective::all_gather, Axis::shard};
constexpr TrafficKey kScatters = {Purpose::gradient, Collective::reduce_scatter, Axis::shard};
constexpr TrafficKey kReduces = {Purpose::gradient, Collective::all_reduce, Axis::replica};

TEST_CASE("groups of any size: lesson 01's numbers, memory and bytes as predicted") {
  struct Case {
    size_t ranks, shard_size, micro_batch;
    DType dtype = DType::fp64;
  };
  const Record exact = record_oracle(DType::fp64), fp32 = record_oracle(DType::fp32);
  for (const auto& [ranks, shard_size, micro_batch, dtype] :
       {Case{2, 1, 3}, Case{3, 1, 4}, Case{4, 2, 1}, Case{4, 2, 3}, Case{8, 2, 1}, Case{8, 4, 3},
        Case{8, 1, 1}, Case{4, 2, 3, DType::fp32}, Case{8, 4, 1, DType::fp32}}) {
    INFO(name_of(dtype) << ", " << ranks << " ranks, shards of " << shard_size);
    Groups groups(ranks);
    const RunConfig config = equivalence_config(dtype, micro_batch);
    const Record record = require_predicted<Hybrid>(config, groups, of_size(shard_size));
    if (groups.group->rank() != 0) continue;
    require_none(differences(dtype == DType::fp64 ? exact : fp32, record, bounds_for(dtype),
                             config.optimizer));
  }
}

TEST_CASE("one group of all ranks: the bits of lesson 05") {
  require_same_bits<Zero3Trainer, Hybrid>(DType::fp32, 4, Accumulation::none);
  require_same_bits<Zero3Trainer, Hybrid>(DType::fp64, 3, Accumulation::none);
  require_same_bits<Zero3Trainer, Hybrid>(DType::bf16, 4, Accumulation::rows);
}

TEST_CASE("a copy on each rank: the bits of lesson 02, with one micro-batch") {
  for (DType dtype : {DType::fp32, DType::bf16}) {
    require_same_bits<DdpTrainer, Hybrid>(dtype, 4, Accumulation::none, {}, of_size(1));
  }
}

// A sum over ranks on several machines adds sums of machines: which is what groups do.
TEST_CASE("a copy on each machine: the bits of lesson 05, with one micro-batch") {
  for (DType dtype : {DType::fp32}) {
    for (size_t shard_size : {2, 4}) {
      INFO(name_of(dtype) << ", machines of " << shard_size << " ranks");
      std::vector<size_t> machine_of;
      for (size_t rank = 0; rank < 8; ++rank) machine_of.push_back(rank / shard_size);
      const RunConfig config = equivalence_config(dtype, 3);
      const auto record = [&]<class T>(const typename T::Flags& flags) {
        Groups groups(8, {.machine_of = machine_of});
        return record_run<T>(config, *groups.group, &groups.node_memory, flags);
      };
      const Record a = record.operator()<Zero3Trainer>({});
      const Record b = record.operator()<Hybrid>(of_size(shard_size));
      if (world().rank() == 0) require_none(differences(a, b, {}, config.optimizer));
      // What leaves a machine: the sums of gradients, and nothing for parameters.
      for (const auto& [key, traffic] : b.communicated) {
        if (key.purpose == Purpose::control) continue;
        INFO(name_of(key));
        CHECK((traffic.moved.between > 0) == (key.axis == Axis::replica));
      }
    }
  }
}

// Sums of squares in another order have other last bits in about every second case.
TEST_CASE("the norm has the bits of lesson 05, whatever the ranks of a group are") {
  for_random_cases(8, [](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const size_t ranks = 4UL << random() % 2, shard_size = 1UL << random() % 3;
    INFO("case " << seed << ": " << ranks << " ranks, machines of " << shard_size << " ranks");
    std::vector<size_t> machine_of;
    for (size_t rank = 0; rank < ranks; ++rank) machine_of.push_back(rank / shard_size);
    RunConfig config = equivalence_config(DType::fp64, 24 / ranks);
    config.seed = seed;
    const auto norms = [&]<class T>(const typename T::Flags& flags) {
      Groups groups(ranks, {.machine_of = machine_of});
      Session<T> session(config, *groups.group, &groups.node_memory, flags);
      std::vector<double> found;
      for (int step = 0; step < kSteps; ++step) found.push_back(session.trainer->step().grad_norm);
      return found;
    };
    CHECK(norms.operator()<Hybrid>(of_size(shard_size)) == norms.operator()<Zero3Trainer>({}));
  });
}

TEST_CASE("memory and bytes are those of the README's formulas") {
  for (size_t ranks : {4, 8}) {
    for (size_t shard_size : {1, 2, 4}) {
      for (size_t micro_batch : {1, 3}) {
        INFO(ranks << " ranks, shards of " << shard_size << ", micro-batches of " << micro_batch);
        const RunConfig config = equivalence_config(DType::fp32, micro_batch);
        const Hybrid::Flags flags = of_size(shard_size);
        const Layout layout(config.model, ranks);
        const size_t p = layout.num_elements() * sizeof(float), m = 24 / ranks / micro_batch;
        const size_t w = elements_of(layout, "wpe") * sizeof(float);
        const MemoryUse device =
            predict<Hybrid>(config, Hybrid::arrange(flags, ranks, 0), flags).device;
        CHECK(device[Category::parameters] == p / shard_size);
        CHECK(device[Category::gradients] == p / shard_size);
        CHECK(device[Category::optimizer] == 2 * p / shard_size);
        const auto bytes = [&](const TrafficKey& key) {
          return predicted(config, ranks, flags, key).payload_bytes;
        };
        CHECK(bytes(kGathers) == (shard_size > 1 ? m * (2 * p - w) : 0));
        CHECK(bytes(kScatters) == (shard_size > 1 ? m * p : 0));
        // Once a step, however many micro-batches.
        const bool has_copies = shard_size < ranks;
        CHECK(bytes(kReduces) == (has_copies ? p / shard_size : 0));
        CHECK(predicted(config, ranks, flags, kReduces).calls ==
              (has_copies ? layout.units().size() : 0));
      }
    }
  }
}

TEST_CASE("every way to gather changes no bit") {
  Groups groups(4);
  const RunConfig config = equivalence_config(DType::fp32, 3);
  const auto run = [&](const GatherOptions& gather) {
    return record_run<Hybrid>(config, *groups.group, &groups.node_memory,
                              {.shards = {.shard_size = 2}, .gather = gather});
  };
  const Record expected = run({});
  for (const GatherOptions& gather :
       {GatherOptions{.prefetch = 0}, GatherOptions{.prefetch = 3, .keep_embedding = true},
        GatherOptions{.reshard_after_forward = false}}) {
    const Record record = run(gather);
    if (groups.group->rank() == 0)
      require_none(differences(expected, record, {}, config.optimizer));
  }
}

TEST_CASE("in bf16 near lesson 01's fp64") {
  const Record exact = record_oracle(DType::fp64);
  const RunConfig config = equivalence_config(DType::bf16, 3);
  Groups groups(4);
  const Record record = require_predicted<Hybrid>(config, groups, of_size(2));
  if (groups.group->rank() == 0) require_none(low_precision_differences(exact, record, config));
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<Hybrid>(equivalence_config(DType::fp64, 3),
                                   Hybrid::arrange(of_size(2), 4, 0), of_size(2));
}

TEST_CASE("a copy of a shard that differs in one bit is found, by the ranks that hold it") {
  Groups groups(6);
  if (groups.group->size() != 6) return;
  WatchedMemory memory;
  const RunConfig config = equivalence_config(DType::fp32, 1);
  Session<Hybrid> session(config, *groups.group, nullptr, of_size(2), &memory);
  const size_t n = session.trainer->state().parameters.view().num_elements();
  // Parameters and gradients are equally large, and the parameters come first.
  char* const parameters = reinterpret_cast<char*>(memory.find(n * sizeof(float)));
  CHECK_NOTHROW(session.trainer->check_replicas());
  for (size_t culprit = 0; culprit < 6; ++culprit) {
    INFO("rank " << culprit << " differs");
    const auto flip = [&] {
      if (session.grid.rank == culprit) parameters[0] ^= 1;
    };
    flip();
    if (session.grid.rank % 2 == culprit % 2) {
      CHECK_THROWS_WITH(session.trainer->check_replicas(),
                        ContainsSubstring(concat("the parameters of rank ", culprit, " differ")));
    } else {
      CHECK_NOTHROW(session.trainer->check_replicas());
    }
    flip();
  }
  CHECK_NOTHROW(session.trainer->check_replicas());
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<Hybrid>(equivalence_config(DType::fp32, 3), 4, of_size(2));
}

}  // namespace
}  // namespace ladder
