// Lesson 13 computes what lesson 01 computes, with slices of the weights and parts of the tokens.
#include <cmath>

#include "lessons/13_sequence_parallel/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/split.h"
#include "tests/lessons/weights.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

const SequenceParallelTrainer::Flags kKeep = {.tensor = {}, .tokens = {.gathered = "keep"}};

TEST_CASE("the gradients, parameters and moments of lesson 01, and memory and bytes as predicted") {
  Sample sample(3);
  for (DType dtype : {DType::fp64, DType::fp32}) {
    const Record oracle = record_oracle(split_config(dtype, 24));
    for (size_t ranks : {1, 2, 4}) {
      // Of 16 rows: ranks have parts of one sequence. Of 48: of one or two. Of 384: of several, and
      // two blocks of the classifier.
      for (size_t micro_batch : {1, 3, 24}) {
        INFO(name_of(dtype) << ", " << ranks << " ranks, micro-batch " << micro_batch);
        const RunConfig config = split_config(dtype, micro_batch);
        for (const auto& flags : {SequenceParallelTrainer::Flags{}, kKeep}) {
          if (!sample.takes()) continue;
          require_split_run<SequenceParallelTrainer>(oracle, config, ranks, flags);
        }
      }
    }
  }
}

TEST_CASE("today's block, with heads of k and v that several ranks have") {
  const QkNorm qk_norm = GENERATE(QkNorm::none, QkNorm::rmsnorm);
  const auto config = [&](size_t micro_batch) {
    return with_llama_block(split_config(DType::fp64, micro_batch), 2, qk_norm);
  };
  const Record oracle = record_oracle(config(24));
  for (size_t ranks : {2, 4}) {
    for (const auto& flags : {SequenceParallelTrainer::Flags{}, kKeep}) {
      require_split_run<SequenceParallelTrainer>(oracle, config(3), ranks, flags);
    }
  }
}

TEST_CASE("with recomputation and with activations on the host") {
  const Record oracle = record_oracle(split_config(DType::fp64, 24));
  for (const char* mode : {"attention", "block"}) {
    RunConfig config = split_config(DType::fp64, 3);
    config.recompute = parse_recompute(mode);
    config.offload_activations = true;
    require_split_run<SequenceParallelTrainer>(oracle, config, 2, {});
  }
}

TEST_CASE("what is split has the bits of lesson 07") {
  for (DType dtype : {DType::fp32, DType::bf16}) {
    const RunConfig config = split_config(dtype, 3);
    Groups groups(4);
    MemorySource* const memory = &groups.node_memory;
    const Record a = record_run<TensorParallelTrainer>(config, *groups.group, memory);
    const Record b = record_run<SequenceParallelTrainer>(config, *groups.group, memory);
    CHECK(a.results[0].loss == b.results[0].loss);
    if (groups.group->rank() != 0) continue;
    const Layout layout(config.model, 1, {.tensor_size = 4});
    size_t num_split = 0;
    for (const Unit& unit : layout.units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (!parameter.split) continue;
        INFO(parameter.name << " in " << name_of(dtype));
        const std::string name = "grad." + parameter.name;
        CHECK(a.tensors[0].at(name) == b.tensors[0].at(name));
        ++num_split;
      }
    }
    CHECK(num_split == 6 * 4 + 1);
  }
}

TEST_CASE("in bf16 near lesson 01's fp64, and memory and bytes as predicted") {
  const Record exact = record_oracle(split_config(DType::fp64, 24));
  for (size_t ranks : {2, 4}) {
    require_split_low_precision<SequenceParallelTrainer>(exact, ranks, {});
  }
}

TEST_CASE("a vocabulary that does not divide is padded: 8 ranks, 250 tokens") {
  RunConfig config = split_config(DType::fp64, 12);
  config.model.vocab_size = 250;  // 32 a rank, 26 on the last
  config.model.num_heads = 8;
  const Record record =
      require_split_run<SequenceParallelTrainer>(record_oracle(config), config, 8, {});
  CHECK(record.results.size() == kSteps);
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<SequenceParallelTrainer>(split_config(DType::fp64, 24),
                                                    {.tensor_size = 2});
}

TEST_CASE("bytes and activations are as the README says") {
  const RunConfig config = split_config(DType::fp32, 24);
  const size_t r = 24 * 16, t = 16, c = 32, l = 4, nh = 4, s = sizeof(float);
  for (size_t n : {2, 4}) {
    const ProcessGrid grid = {.tensor_size = n, .rank = n - 1};
    for (bool keeps : {false, true}) {
      const Prediction prediction = predict<SequenceParallelTrainer>(
          config, grid, keeps ? kKeep : SequenceParallelTrainer::Flags());
      const auto bytes = [&](Purpose purpose, Collective collective) {
        return prediction.step.at({purpose, collective, Axis::tensor}).payload_bytes;
      };
      CHECK(bytes(Purpose::activation, Collective::reduce_scatter) == (4 * l + 2) * r * c * s);
      CHECK(bytes(Purpose::activation, Collective::all_gather) ==
            ((keeps ? 4 : 6) * l + 2) * r * c * s);
      CHECK(bytes(Purpose::activation, Collective::all_reduce) == 3 * r * s);
      CHECK(bytes(Purpose::gradient, Collective::all_reduce) == (6 * l * c + t * c + 2 * c) * s);
      const size_t kept = keeps ? 2 * l * c * (n - 1) : 0;
      CHECK(prediction.device[Category::activations] ==
            r * (l * (16 * c + nh + 4) + 2 * c + 2 + kept) / n * s);
    }
  }
}

TEST_CASE("activations are the published ones, but for what this model does not have") {
  // A block with R rows has (34 + 5 NH T / C) R C / N bytes in fp16 [Korthikanti22, table 2]. Two
  // of the 34 are masks of dropout, 1 byte a number; the second term has the T x T probabilities
  // and their dropout. This model has neither; it keeps a statistic of attention for each row and
  // head, and 4 of layernorms for each row, in fp32.
  const size_t r = 24 * 16, c = 32, l = 4, nh = 4;
  for (size_t n : {2, 4}) {
    const ProcessGrid grid = {.tensor_size = n, .rank = 0};
    const auto of_blocks = [&](size_t layers) {
      RunConfig config = split_config(DType::bf16, 24);
      config.model.num_layers = layers;
      return predict<SequenceParallelTrainer>(config, grid, {}).device[Category::activations];
    };
    const size_t statistics = r * (nh + 4) / n * sizeof(float);
    CHECK(of_blocks(l + 1) - of_blocks(l) == 32 * r * c / n + statistics);
  }
}

TEST_CASE("tokens that do not divide: the last rank has fewer") {
  RunConfig config = split_config(DType::fp64, 24);
  config.model.sequence_length = 15;
  const Record oracle = record_oracle(config);
  Sample sample(3);
  for (size_t ranks : {2, 4}) {
    for (size_t micro_batch : {1, 3}) {  // 15 rows and 45
      INFO(ranks << " ranks, micro-batch " << micro_batch);
      config.micro_batch_size = micro_batch;
      for (const auto& flags : {SequenceParallelTrainer::Flags{}, kKeep}) {
        if (!sample.takes()) continue;
        require_split_run<SequenceParallelTrainer>(oracle, config, ranks, flags);
      }
    }
  }
  // Every rank has room for 4 of the 15 rows, and sends as if there were 16.
  config.micro_batch_size = 1;
  const Prediction prediction =
      predict<SequenceParallelTrainer>(config, {.tensor_size = 4, .rank = 3}, {});
  const size_t c = 32, l = 4, n = 4, s = sizeof(double);
  CHECK(prediction.device[Category::activations] ==
        (l * (4 * (4 * c + 4) + 15 * (12 * c + 4) / n) + 4 * (2 * c + 2)) * s);
  CHECK(prediction.step.at({Purpose::activation, Collective::reduce_scatter, Axis::tensor}) ==
        Traffic{.calls = 24 * (4 * l + 2), .payload_bytes = 24 * (4 * l + 2) * 16 * c * s});
}

TEST_CASE("fewer tokens than a rank each are refused, and keeping what is recomputed") {
  RunConfig config = split_config(DType::fp32, 1);
  config.model.sequence_length = 5;
  CHECK_NOTHROW(check_tokens(config, 3, {}));
  CHECK_NOTHROW(check_tokens(config, 5, kKeep.tokens));
  CHECK_THROWS_WITH(check_tokens(config, 4, {}),
                    "--micro-batch-size 1: 1 sequence of 5 tokens, of which each of 4 ranks takes "
                    "2: nothing is left for the last one");
  config.recompute = parse_recompute("cheap");
  CHECK_THROWS_WITH(check_tokens(config, 5, kKeep.tokens),
                    "--gathered keep with --recompute cheap: one keeps more and the other less; "
                    "choose one of them");
}

TEST_CASE("a copy of a parameter that differs is found, and the rank named") {
  const auto require_named = [](const RunConfig& config, size_t ranks) {
    require_culprits_named<SequenceParallelTrainer>(config, ranks, [&](const ProcessGrid& grid) {
      return Layout(config.model, 1,
                    {.tensor_rank = grid.group_rank(Axis::tensor), .tensor_size = ranks});
    });
  };
  RunConfig config = split_config(DType::fp32, 24);
  for (size_t ranks : {2, 4}) require_named(config, ranks);
  // One head of k and v is on all four ranks; of two each is on two of them.
  config.model.num_layers = 1;
  for (size_t heads : {1, 2}) require_named(with_llama_block(config, heads), 4);
}

TEST_CASE("rank 0 alone is given tensors, in full") {
  Groups groups(4);
  Session<SequenceParallelTrainer> session(split_config(DType::fp32, 24), *groups.group, nullptr);
  session.visit(kParam, [&](const ParameterSpec& parameter, ConstTensorView tensor) {
    CHECK(groups.group->rank() == 0);
    CHECK(tensor.shape() == parameter.shape);
  });
}

TEST_CASE("training begins with the weights of a file") {
  RunConfig config = split_config(DType::fp32, 12);
  config.model.vocab_size = 250;  // 63 a rank, 61 on the last
  require_weights_from_file<SequenceParallelTrainer>(config, 4);
}

}  // namespace
}  // namespace ladder
