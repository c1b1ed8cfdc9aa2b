// Lesson 14 computes what lesson 01 computes, on sequences that ranks share: 1, 2, 3, 4 and 8
// ranks, and lengths that do not divide among them.

#include "lessons/02_ddp/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/14_context_parallel/runs.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;
using Flags = ContextParallelTrainer::Flags;

// All ranks of a group share each sequence: the last of several groups may be a smaller one.
constexpr size_t kAll = 0;

Flags flags_for(size_t context_size, Slicing slices) {
  return {.context = {.size = context_size, .slices = slices}, .bucket_bytes = 20000};
}

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(odd_config(dtype, 24));
    for (Slicing slices : kSlicings) {
      for (size_t ranks : {1, 2, 3, 4, 8}) {
        require_run(oracle, odd_config(dtype, 12), ranks, flags_for(kAll, slices));
      }
    }
  }
}

TEST_CASE("today's block: the ring sends the heads of k and v alone, with their positions") {
  const Record oracle = record_oracle(with_llama_block(odd_config(DType::fp64, 24), 1));
  for (Slicing slices : kSlicings) {
    for (size_t ranks : {2, 3, 4}) {
      require_run(oracle, with_llama_block(odd_config(DType::fp64, 12), 1), ranks,
                  flags_for(kAll, slices));
    }
  }
  const auto sent = [](const RunConfig& config) {
    const Prediction prediction = predict<ContextParallelTrainer>(
        config, {.context_size = 4, .rank = 1}, flags_for(4, Slicing::zigzag));
    return prediction.step.at({Purpose::activation, Collective::send, Axis::context}).payload_bytes;
  };
  const RunConfig config = odd_config(DType::fp32, 6);
  CHECK(sent(config) == 2 * sent(with_llama_block(config, 1)));
  CHECK(sent(config) == sent(with_llama_block(config, 2)));
}

TEST_CASE("norms of q and k: a rank norms its tokens, and what ranks send is as large as before") {
  const auto config = [](DType dtype, size_t micro_batch) {
    return with_llama_block(odd_config(dtype, micro_batch), 1, QkNorm::rmsnorm);
  };
  require_run(record_oracle(config(DType::fp64, 24)), config(DType::fp64, 12), 3,
              flags_for(kAll, Slicing::zigzag));
}

TEST_CASE("with data parallelism, and with accumulation") {
  const Record oracle = record_oracle(odd_config(DType::fp64, 24));
  const auto run = [&](size_t ranks, size_t context_size) {
    require_run(oracle, odd_config(DType::fp64, 3), ranks,
                flags_for(context_size, Slicing::zigzag));
  };
  run(4, 2);
  run(8, 4);
  run(8, 2);
  run(2, 1);  // lesson 02
}

TEST_CASE("ranks with one token, and slices without any") {
  for (size_t length : {8, 9, 15}) {
    INFO(length << " tokens");
    const Record oracle = record_oracle(odd_config(DType::fp64, 24, length));
    for (Slicing slices : kSlicings) {
      require_run(oracle, odd_config(DType::fp64, 12, length), 8, flags_for(8, slices));
    }
  }
}

TEST_CASE("attention that is computed again travels again") {
  const Record oracle = record_oracle(odd_config(DType::fp64, 24));
  for (const char* mode : {"attention", "block"}) {
    INFO(mode);
    RunConfig config = odd_config(DType::fp64, 12);
    config.recompute = parse_recompute(mode);
    require_run(oracle, config, 3, flags_for(kAll, Slicing::zigzag));
  }
}

TEST_CASE("buckets, overlap and the path of the data change no bit") {
  const RunConfig config = odd_config(DType::fp32, 6);
  Groups groups(4);
  const auto run = [&](const Flags& flags, MemorySource* registered) {
    return record_run<ContextParallelTrainer>(config, *groups.group, registered, flags);
  };
  const Record expected = run({.bucket_bytes = 20000}, &groups.node_memory);
  for (const Flags& flags : {Flags{.bucket_bytes = 1}, Flags{.no_overlap = true}}) {
    for (MemorySource* source :
         {static_cast<MemorySource*>(&groups.node_memory), static_cast<MemorySource*>(nullptr)}) {
      const Record record = run(flags, source);
      if (groups.group->rank() == 0) {
        require_none(differences(expected, record, {}, config.optimizer));
      }
    }
  }
}

TEST_CASE("one rank a sequence: the bits of lesson 02") {
  require_same_bits<DdpTrainer, ContextParallelTrainer>(DType::fp32, 2, Accumulation::rows, {},
                                                        {.context = {.size = 1}});
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(odd_config(DType::fp64, 24));
  const RunConfig config = odd_config(DType::bf16, 6);
  for (size_t ranks : {2, 3}) {
    INFO(ranks << " ranks");
    Groups groups(ranks);
    const Record record =
        require_predicted<ContextParallelTrainer>(config, groups, flags_for(kAll, Slicing::zigzag));
    if (groups.group->rank() == 0) require_none(low_precision_differences(exact, record, config));
  }
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<ContextParallelTrainer>(odd_config(DType::fp64, 24),
                                                   {.context_size = 2});
}

TEST_CASE("bytes and activations are as the README says") {
  const RunConfig config = odd_config(DType::fp32, 6);
  const size_t b = 6, t = 19, m = 24 / b, c = 32, l = 2, nh = 2, s = sizeof(float);
  for (Slicing slices : kSlicings) {
    for (size_t n : {2, 3, 4, 8}) {
      const size_t most = (t + n - 1) / n;
      const auto tokens = [&](size_t rank) { return rank % n < t % n ? most : t / n; };
      for (size_t rank = 0; rank < n; ++rank) {
        const ProcessGrid grid = {.context_size = n, .rank = rank};
        const Prediction prediction =
            predict<ContextParallelTrainer>(config, grid, flags_for(n, slices));
        const Traffic& sent =
            prediction.step.at({Purpose::activation, Collective::send, Axis::context});
        CHECK(sent.payload_bytes == m * l * b * 2 * c * (2 * (t - tokens(rank + 1)) + t) * s);
        CHECK(sent.calls == m * l * (2 * (n - 1) + n));
        const Traffic& gradients =
            prediction.step.at({Purpose::gradient, Collective::all_reduce, grid.replicas()});
        CHECK(gradients.payload_bytes == Layout(config.model, n).num_elements() * s);
        CHECK(prediction.device[Category::activations] ==
              b * most * (l * (16 * c + nh + 4) + 2 * c + 2) * s);
      }
    }
  }
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  const RunConfig config = odd_config(DType::fp32, 12);
  for (size_t ranks : {2, 4}) {
    require_culprits_named<ContextParallelTrainer>(
        config, ranks, [&](const ProcessGrid&) { return Layout(config.model, ranks); });
  }
}

TEST_CASE("training begins with the weights of a file") {
  require_weights_from_file<ContextParallelTrainer>(odd_config(DType::fp32, 3), 4);
}

TEST_CASE("ranks that do not divide are refused") {
  CHECK_THROWS_WITH(ContextParallelTrainer::arrange({.context = {.size = 3}}, 4, 0),
                    "--context-parallel-size 3 does not divide 4 ranks; 6 ranks would do");
}

}  // namespace
}  // namespace ladder
