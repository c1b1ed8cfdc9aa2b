// Lesson 07 computes what lesson 01 computes, with slices of the weights.
#include <algorithm>
#include <cmath>

#include "lessons/07_tensor_parallel/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/split.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(split_config(dtype, 24));
    for (size_t ranks : {1, 2, 4}) {
      for (size_t micro_batch : {1, 24}) {  // of 16 rows, and of 384: two blocks of the classifier
        INFO(name_of(dtype) << ", " << ranks << " ranks, micro-batch " << micro_batch);
        require_split_run<TensorParallelTrainer>(oracle, split_config(dtype, micro_batch), ranks,
                                                 {});
      }
    }
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(split_config(DType::fp64, 24));
  for (size_t ranks : {2, 4}) {
    require_split_low_precision<TensorParallelTrainer>(exact, ranks, {});
  }
}

TEST_CASE("heads of k and v that several ranks have: one sum of their gradients, counted once") {
  for (size_t key_value_heads : {1, 2}) {
    const auto config = [&](size_t micro_batch) {
      return with_llama_block(split_config(DType::fp64, micro_batch), key_value_heads);
    };
    const Record oracle = record_oracle(config(24));
    for (size_t ranks : {2, 4}) {
      INFO(key_value_heads << " heads, " << ranks << " ranks");
      require_split_run<TensorParallelTrainer>(oracle, config(6), ranks, {});
    }
  }
}

TEST_CASE("norms of q and k: each rank adds its heads' part of their gradients, once") {
  for (size_t key_value_heads : {2, 4}) {
    const auto config = [&](size_t micro_batch) {
      return with_llama_block(split_config(DType::fp64, micro_batch), key_value_heads,
                              QkNorm::rmsnorm);
    };
    const Record oracle = record_oracle(config(24));
    for (size_t ranks : {2, 4}) {
      INFO(key_value_heads << " heads, " << ranks << " ranks");
      require_split_run<TensorParallelTrainer>(oracle, config(6), ranks, {});
    }
  }
}

// The gradients lie in Layout::trained(), where frozen parameters leave no room.
TEST_CASE("heads of k and v that several ranks have, beside frozen parameters") {
  const auto config = [](size_t micro_batch) {
    RunConfig run = with_llama_block(split_config(DType::fp64, micro_batch), 2, QkNorm::rmsnorm);
    run.model.frozen = {"layers.0.input_layernorm.weight", "layers.1.mlp.down_proj.weight",
                        "layers.2.self_attn.q_norm.weight"};
    return run;
  };
  require_split_run<TensorParallelTrainer>(record_oracle(config(24)), config(6), 4, {});
}

TEST_CASE("a vocabulary that does not divide is padded: 8 ranks, 250 tokens") {
  RunConfig config = split_config(DType::fp64, 12);
  config.model.vocab_size = 250;  // 32 a rank, 26 on the last
  config.model.num_heads = 8;
  const Record record =
      require_split_run<TensorParallelTrainer>(record_oracle(config), config, 8, {});
  CHECK(record.results.size() == kSteps);
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<TensorParallelTrainer>(split_config(DType::fp64, 24),
                                                  {.tensor_size = 2});
}

TEST_CASE("bytes and activations are as the README says") {
  const RunConfig config = split_config(DType::fp32, 24);
  const size_t r = 24 * 16, c = 32, l = 4, nh = 4;
  for (size_t n : {2, 4}) {
    const Prediction prediction =
        predict<TensorParallelTrainer>(config, {.tensor_size = n, .rank = n - 1}, {});
    const Traffic& sums =
        prediction.step.at({Purpose::activation, Collective::all_reduce, Axis::tensor});
    CHECK(sums.payload_bytes == ((4 * l + 2) * r * c + 3 * r) * sizeof(float));
    CHECK(sums.calls == 4 * l + 2 + 2 * 2);
    CHECK(prediction.device[Category::activations] ==
          r * (l * ((4 + 12 / n) * c + nh / n + 4) + 2 * c + 2) * sizeof(float));
  }
}

TEST_CASE("today's block: bytes and activations with heads of k and v on several ranks") {
  const size_t r = 24 * 16, c = 32, l = 4, nh = 4, d = 8, f = 96;
  const QkNorm qk_norm = GENERATE(QkNorm::none, QkNorm::rmsnorm);
  const size_t norms = qk_norm == QkNorm::none ? 0 : 1;
  for (size_t heads : {1, 2, 4}) {
    const RunConfig config = with_llama_block(split_config(DType::fp32, 24), heads, qk_norm);
    for (size_t n : {2, 4}) {
      INFO(heads << " heads, " << n << " ranks, " << norms << " norms of q and k");
      const Prediction prediction =
          predict<TensorParallelTrainer>(config, {.tensor_size = n, .rank = n - 1}, {});
      const size_t own = std::max<size_t>(heads / n, 1), copies = n * own / heads;
      const TrafficKey sends = {Purpose::gradient, Collective::send, Axis::tensor};
      CHECK(prediction.step.count(sends) == (copies > 1 || norms > 0 ? 1 : 0));
      // k's and v's weights, and their biases; the weights that norm q and k.
      const size_t elements = 2 * own * d * c + 2 * own * d, of_norms = norms * 2 * d;
      if (copies > 1 || norms > 0) {
        CHECK(prediction.step.at(sends).payload_bytes ==
              l * (2 * (copies - 1) * elements / copies + 2 * (n - 1) * of_norms / n) *
                  sizeof(float));
      }
      // With norms q and k are kept as they were before, too, and a number for each head.
      const size_t own_heads = nh / n + own, kept_heads = norms * own_heads * (d + 1);
      const size_t columns = 4 * c + nh * d / n + 2 * own * d + nh * d / n + 3 * f / n;
      CHECK(prediction.device[Category::activations] ==
            r * (l * (columns + kept_heads + nh / n + 2) + 2 * c + 1) * sizeof(float));
    }
  }
}

TEST_CASE("sizes that do not divide are refused, with one that does") {
  ModelConfig model = split_config(DType::fp32, 24).model;
  CHECK_NOTHROW(check_slices(model, 4));
  CHECK_THROWS_WITH(check_slices(model, 3),
                    "--tensor-parallel-size 3: 4 heads and an inner layer of 128 cannot be split "
                    "among 3 ranks; 2 would do");
  model.vocab_size = 9;  // 3 a rank: nothing is left for the fourth
  CHECK_THROWS_WITH(check_slices(model, 4),
                    ContainsSubstring("vocabulary of 9") && ContainsSubstring("2 would do"));
  model.num_heads = 1;
  CHECK_THROWS_WITH(check_slices(model, 4),
                    ContainsSubstring(": 1 head and a vocabulary of 9 tokens cannot"));
  model = with_llama_block(split_config(DType::fp32, 24), 1).model;
  model.num_heads = 12;
  model.key_value_heads = 3;
  CHECK_THROWS_WITH(check_slices(model, 2), ContainsSubstring(": 3 heads of k and v cannot"));
  CHECK_THROWS_WITH(TensorParallelTrainer::arrange({.tensor_parallel_size = 4}, 2, 0),
                    "--tensor-parallel-size 4 on 2 ranks; start 4 of them, or take 09_3d_parallel, "
                    "which splits the batch too");
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  const auto require_named = [](const RunConfig& config, size_t ranks) {
    require_culprits_named<TensorParallelTrainer>(config, ranks, [&](const ProcessGrid& grid) {
      return Layout(config.model, 1,
                    {.tensor_rank = grid.group_rank(Axis::tensor), .tensor_size = ranks});
    });
  };
  RunConfig config = split_config(DType::fp32, 24);
  for (size_t ranks : {2, 4}) require_named(config, ranks);
  // One head of k and v is on all four ranks; of two each is on two of them.
  config.model.num_layers = 1;
  for (size_t heads : {1, 2}) require_named(with_llama_block(config, heads), 4);
  // The weights of q's and k's norms are on all.
  require_named(with_llama_block(config, 2, QkNorm::rmsnorm), 4);
}

TEST_CASE("rank 0 alone is given tensors, in full") {
  Groups groups(4);
  Session<TensorParallelTrainer> session(split_config(DType::fp32, 24), *groups.group, nullptr);
  session.visit(kParam, [&](const ParameterSpec& parameter, ConstTensorView tensor) {
    CHECK(groups.group->rank() == 0);
    CHECK(tensor.shape() == parameter.shape);
  });
}

TEST_CASE("training begins with the weights of a file") {
  RunConfig config = split_config(DType::fp32, 12);
  config.model.vocab_size = 250;  // 63 a rank, 61 on the last
  require_weights_from_file<TensorParallelTrainer>(config, 4);
}

}  // namespace
}  // namespace ladder
