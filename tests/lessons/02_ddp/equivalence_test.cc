// Lesson 02 computes what lesson 01 computes: the harness on 1, 2, 3, 4 and 8 ranks.

#include "lessons/02_ddp/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("the gradients, parameters and moments of lesson 01") {
  require_equivalence<DdpTrainer>({.bucket_bytes = 20000});
}

TEST_CASE("with Muon: lesson 01's numbers, memory and bytes as predicted") {
  const auto with_muon = [](RunConfig config) {
    config.optimizer.name = "muon";
    return config;
  };
  const Record oracle = record_oracle(with_muon(equivalence_config(DType::fp64, 24)));
  for (const auto& [ranks, micro_batch] :
       {std::pair<size_t, size_t>{1, 6}, {2, 3}, {3, 4}, {8, 1}}) {
    INFO(ranks << " ranks, micro-batch " << micro_batch);
    Groups groups(ranks);
    const RunConfig config = with_muon(equivalence_config(DType::fp64, micro_batch));
    const Record record =
        record_run<DdpTrainer>(config, *groups.group, &groups.node_memory, {.bucket_bytes = 20000});
    require_as_predicted(record);
    if (groups.group->rank() != 0) continue;
    require_none(differences(oracle, record, bounds_for(DType::fp64), config.optimizer));
    // Matrices have momentum, and nothing else.
    CHECK(record.tensors[0].contains("exp_avg.h.0.mlp.c_fc.weight"));
    CHECK_FALSE(record.tensors[0].contains("exp_avg_sq.h.0.mlp.c_fc.weight"));
    CHECK(record.tensors[0].contains("exp_avg_sq.wte.weight"));
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, with half the bytes of parameters") {
  require_low_precision<DdpTrainer>({.bucket_bytes = 20000});
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<DdpTrainer>();
}

TEST_CASE("buckets, overlap and the path of the data change no bit") {
  const RunConfig config = equivalence_config(DType::fp32, 1);
  Groups groups(4);
  const auto run = [&](const DdpTrainer::Flags& flags, MemorySource* registered) {
    return record_run<DdpTrainer>(config, *groups.group, registered, flags);
  };
  const Record expected = run({.naive = true}, &groups.node_memory);
  const std::vector<DdpTrainer::Flags> variants = {{.bucket_bytes = 1},
                                                   {.bucket_bytes = 20000},
                                                   {.bucket_bytes = size_t{1} << 40},
                                                   {.bucket_bytes = 20000, .no_overlap = true}};
  for (const DdpTrainer::Flags& flags : variants) {
    for (MemorySource* source :
         {static_cast<MemorySource*>(&groups.node_memory), static_cast<MemorySource*>(nullptr)}) {
      INFO(flags.bucket_bytes << (flags.no_overlap ? " no overlap" : "")
                              << (source != nullptr ? " registered" : ""));
      const Record record = run(flags, source);
      if (groups.group->rank() == 0) {
        require_none(differences(expected, record, {}, config.optimizer));
      }
    }
  }
}

TEST_CASE("memory and communication are as predicted") {
  require_predicted<DdpTrainer>(1, {.bucket_bytes = 20000});
  const RunConfig config = equivalence_config(DType::fp32, 1);
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    const Layout layout(config.model, ranks);
    CHECK(predicted_bytes<DdpTrainer>(config, ranks, Purpose::gradient, Collective::all_reduce) ==
          layout.num_elements() * sizeof(float));
  }
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  require_culprits_named<DdpTrainer>();
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<DdpTrainer>(equivalence_config(DType::fp32, 3), 4);
}

}  // namespace
}  // namespace ladder
