// --attention ulysses computes what lesson 01 computes, on 1, 2 and 4 ranks that share sequences of
// lengths that do not divide among them.

#include "tests/catch.h"
#include "tests/lessons/14_context_parallel/runs.h"

namespace ladder {
namespace {

using namespace testing;
using Flags = ContextParallelTrainer::Flags;

constexpr size_t kHeads = 4;

RunConfig heads_config(DType dtype, size_t micro_batch_size, size_t length = 19) {
  RunConfig config = odd_config(dtype, micro_batch_size, length);
  config.model.num_heads = kHeads;
  return config;
}

Flags flags_for(size_t context_size, Slicing slices = Slicing::contiguous) {
  return {.context = {.size = context_size,
                      .attention = ContextFlags::Method::ulysses,
                      .slices = slices},
          .bucket_bytes = 20000};
}

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(heads_config(dtype, 24));
    for (Slicing slices : kSlicings) {
      for (size_t ranks : {1, 2, 4}) {
        require_run(oracle, heads_config(dtype, 12), ranks, flags_for(ranks, slices));
      }
    }
  }
}

TEST_CASE("norms of q and k: of a rank's tokens, before they are exchanged") {
  const auto config = [](size_t micro_batch) {
    return with_llama_block(heads_config(DType::fp64, micro_batch), 2, QkNorm::rmsnorm);
  };
  require_run(record_oracle(config(24)), config(12), 2, flags_for(2, Slicing::zigzag));
}

TEST_CASE("with data parallelism, and with accumulation") {
  const Record oracle = record_oracle(heads_config(DType::fp64, 24));
  for (const auto& [ranks, context_size] : {std::pair(4, 2), std::pair(8, 4), std::pair(8, 2)}) {
    require_run(oracle, heads_config(DType::fp64, 3), static_cast<size_t>(ranks),
                flags_for(static_cast<size_t>(context_size), Slicing::zigzag));
  }
}

TEST_CASE("ranks with one token, slices without any, and lengths that divide") {
  for (size_t length : {4, 5, 7, 16}) {
    INFO(length << " tokens");
    const Record oracle = record_oracle(heads_config(DType::fp64, 24, length));
    for (Slicing slices : kSlicings) {
      require_run(oracle, heads_config(DType::fp64, 12, length), 4, flags_for(4, slices));
    }
  }
}

TEST_CASE("what is computed again is exchanged again, and what waits on the host comes back") {
  // Of four blocks two wait on the host.
  RunConfig config = heads_config(DType::fp64, 12);
  config.model.num_layers = 4;
  const Record oracle = record_oracle(config);
  for (const char* mode : {"none", "attention", "block", "every-2"}) {
    for (bool offload : {false, true}) {
      INFO(mode << ", offloaded: " << offload);
      config.recompute = parse_recompute(mode);
      config.offload_activations = offload;
      require_run(oracle, config, 4, flags_for(4));
    }
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(heads_config(DType::fp64, 24));
  const RunConfig config = heads_config(DType::bf16, 6);
  for (size_t ranks : {2, 4}) {
    INFO(ranks << " ranks");
    Groups groups(ranks);
    const Record record =
        require_predicted<ContextParallelTrainer>(config, groups, flags_for(ranks));
    if (groups.group->rank() == 0) require_none(low_precision_differences(exact, record, config));
  }
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<ContextParallelTrainer>(heads_config(DType::fp64, 24),
                                                   {.context_size = 2}, flags_for(2));
}

TEST_CASE("bytes and memory are as the README says") {
  const RunConfig config = heads_config(DType::fp32, 6);
  const size_t b = 6, t = 19, m = 24 / b, c = 32, l = 2, s = sizeof(float);
  for (size_t n : {2, 4}) {
    size_t all = 0;
    for (size_t rank = 0; rank < n; ++rank) {
      const size_t own = t / n + (rank < t % n ? 1 : 0), most = (t + n - 1) / n;
      const auto predicted = [&](const Flags& flags) {
        return predict<ContextParallelTrainer>(config, {.context_size = n, .rank = rank}, flags);
      };
      const Prediction prediction = predicted(flags_for(n));
      const Traffic& traffic =
          prediction.step.at({Purpose::activation, Collective::all_to_all, Axis::context});
      // Of its own tokens q, k, v and in backward the output and its gradient; of all tokens, for
      // its heads, the output and in backward three gradients.
      CHECK(traffic.payload_bytes == m * l * b * (5 * own * c + 4 * t * c / n) * s);
      CHECK(traffic.calls == m * l * 5);
      // An n-th of it stays on its rank.
      CHECK(traffic.group_sent_bytes == m * l * b * t * 9 * c * s * (n - 1) / n);
      all += traffic.payload_bytes;

      CHECK(prediction.device[Category::activations] ==
            b * most * (l * (16 * c + kHeads + 4) + 2 * c + 2) * s);
      const Prediction ring = predicted({.context = {.size = n}, .bucket_bytes = 20000});
      CHECK(prediction.device[Category::workspace] +
                b * most * (4 * c * s + (7 * c + kHeads) * s) ==
            ring.device[Category::workspace] + b * (6 * most * c + 2 * t * c / n) * s);
    }
    CHECK(all == m * l * b * t * 9 * c * s);
  }
}

TEST_CASE("slices are contiguous unless they are asked to be a zigzag") {
  CHECK(ContextFlags{}.slicing() == Slicing::zigzag);
  CHECK(ContextFlags{.attention = ContextFlags::Method::ulysses}.slicing() == Slicing::contiguous);
  CHECK(flags_for(2, Slicing::zigzag).context.slicing() == Slicing::zigzag);
}

TEST_CASE("heads that do not divide are refused") {
  const auto refused = [](size_t context_size, size_t data_size) {
    return predict<ContextParallelTrainer>(heads_config(DType::fp32, 6),
                                           {.data_size = data_size, .context_size = context_size},
                                           flags_for(context_size));
  };
  CHECK_THROWS_WITH(refused(3, 1),
                    "--attention ulysses: --context-parallel-size 3 does not divide a rank's 4 "
                    "heads; 1 would do, and --attention ring takes any size");
  CHECK_THROWS_WITH(refused(6, 2),
                    ContainsSubstring("does not divide a rank's 4 heads; 4 would do"));
}

}  // namespace
}  // namespace ladder
