// The description of the model against what its kernels cost.
#include "common/model/description.h"

#include "common/model/layout.h"
#include "common/model/train_choice.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "tests/catch.h"

namespace ladder::testing {
namespace {

// A tensor of no memory: its shape is all that costs depend on.
TensorView view(const Shape& shape, DType dtype = DType::fp32) {
  return TensorView(no_memory().allocate(shape.num_elements() * 8), dtype, DeviceType::cpu, shape);
}

double product_flops(size_t rows, size_t in, size_t out) {
  return matmul_cost(view({rows, out}), view({rows, in}), view({in, out})).product_flops;
}

TEST_CASE("operations cost what the products of their kernels cost") {
  const size_t b = 2, t = 8, c = 12, nh = 3, v = 30, rows = b * t;
  const size_t ffn = GENERATE(size_t{0}, size_t{20}), f = ffn == 0 ? 4 * c : ffn;
  ModelConfig config = {2, nh, c, v, t};
  config.ffn = ffn;
  config.untied = ffn > 0;
  const ModelDescription model = describe(config);
  // As is usual, attention counts also the half of the scores that no query sees and no kernel
  // computes.
  const Cost attention = attention_forward_cost(view({b, t, c}), view({b, nh, t}),
                                                view({b, t, 3 * c}), AttentionMask::causal);
  const double block = product_flops(rows, c, 3 * c) + 2 * attention.product_flops +
                       product_flops(rows, c, c) + product_flops(rows, c, f) +
                       product_flops(rows, f, c);
  for (const Operation& operation : model.operations) {
    const double expected = operation.kind == OperationKind::block ? block
                            : operation.kind == OperationKind::classifier
                                ? product_flops(rows, c, v)
                                : 0;
    CHECK(operation.forward_flops * static_cast<double>(rows) == expected);
  }
  // 6 for each parameter but vectors, which are no part of a product; the usual formula counts
  // them, but no table that is only looked up: neither positions nor a second table of tokens.
  const size_t counted = 2 * (4 * c * c + 2 * c * f + 9 * c + f) + 2 * c + v * c;
  CHECK(model.flops_per_token() == static_cast<double>(6 * counted + 12 * 2 * c * t));
}

// Counted by hand for the block of GPT-2, F = 4 C: 12 C^2 + 13 C parameters, of which 11 C are
// biases, and 2 products of T C each in attention. Products cost 2 for each pair of factors.
TEST_CASE("what is frozen costs no gradient of weights, and below it nothing goes backward") {
  const double l = 4, c = 12, t = 8, v = 30;
  ModelConfig config = {4, 3, 12, 30, 8};
  const double block = 12 * c * c + 13 * c, attention = 4 * c * t, norm = 2 * c;
  const double forward = 2 * (l * block + norm + v * c) + l * attention;
  const auto flops = [&](const std::vector<std::string>& frozen) {
    config.frozen = frozen;
    return describe(config).flops_per_token();
  };
  CHECK(flops({}) == 3 * forward);
  for (const bool untied : {false, true}) {
    config.untied = untied;
    INFO((untied ? "untied" : "tied"));
    for (size_t last = 1; last <= 4; ++last) {
      const double k = number_of(last);
      // Of the classifier, which is frozen, the gradient of its input; of the blocks and the final
      // norm both gradients, and attention's backward is twice its forward.
      const double backward = 2 * v * c + 2 * 2 * norm + k * (2 * 2 * block + 2 * attention);
      CHECK(flops(frozen_names(config, concat("last-", last))) == forward + backward);
    }
    // Everything but the gradients of weights.
    CHECK(flops(frozen_names(config, "bias")) ==
          2 * forward + 2 * (l * 11 * c + c) + l * attention);
  }
  // A classifier alone needs no gradient of its input.
  CHECK(flops({"wte", "wpe", "h.0", "h.1", "h.2", "h.3", "ln_f"}) == forward + 2 * v * c);
  CHECK(flops({"wte", "wpe", "h.0", "h.1", "h.2", "h.3", "lm_head"}) ==
        forward + 2 * v * c + 2 * 2 * norm);
  // The whole way down for positions, whose table multiplies nothing.
  CHECK(flops({"wte", "h.0", "h.1", "h.2", "h.3", "ln_f", "lm_head"}) ==
        2 * forward + l * attention);
}

TEST_CASE("presets have as many parameters as the published models") {
  const std::pair<const char*, size_t> expected[] = {{"gpt2", 124'439'808},
                                                     {"smollm2-135m", 134'515'008},
                                                     {"qwen2.5-0.5b", 494'032'768},
                                                     {"qwen3-0.6b", 596'049'920},
                                                     {"tinyllama-1.1b", 1'100'048'384},
                                                     {"llama-3.2-1b", 1'235'814'400},
                                                     {"llama-2-7b", 6'738'415'616},
                                                     {"llama-3-8b", 8'030'261'248},
                                                     {"mixtral-8x7b", 46'702'792'704},
                                                     {"llama-2-70b", 68'976'648'192},
                                                     {"llama-3-70b", 70'553'706'496},
                                                     {"llama-3-405b", 405'853'388'800}};
  for (const auto& [name, parameters] : expected) {
    CAPTURE(name);
    CHECK(describe(find_preset(name).config).num_parameters() == parameters);
  }
}

TEST_CASE("a product costs two operations for each pair of factors, and every argument once") {
  const Cost cost = matmul_cost(view({3, 5}), view({3, 7}, DType::bf16), view({7, 5}, DType::bf16));
  CHECK(cost.product_flops == 2 * 3 * 5 * 7);
  CHECK(cost.bytes_read == 2 * (3 * 7 + 7 * 5));
  CHECK(cost.bytes_written == 4 * 3 * 5);
  const Cost more = matmul_cost(view({3, 5}), view({7, 3}), view({7, 5}),
                                {.transpose_a = true, .transpose_b = false, .accumulate = true});
  CHECK(more.product_flops == 2 * 3 * 5 * 7);
  CHECK(more.bytes_read == 4 * (3 * 7 + 7 * 5 + 3 * 5));
}

TEST_CASE("attention's cost grows with the square of the sequence, backward with five products") {
  using enum AttentionMask;
  const auto forward = [](size_t t, AttentionMask mask) {
    return attention_forward_cost(view({1, t, 4}), view({1, 2, t}), view({1, t, 12}), mask);
  };
  CHECK(forward(10, causal).product_flops == 2 * 2 * 10 * 10 / 2 * 4);
  CHECK(forward(20, causal).product_flops == 4 * forward(10, causal).product_flops);
  CHECK(forward(10, none).product_flops == 2 * 2 * 10 * 10 * 4);
  const Cost backward =
      attention_backward_cost(view({1, 10, 12}), view({1, 10, 4}), view({1, 10, 4}),
                              view({1, 2, 10}), view({1, 10, 12}), causal);
  CHECK(2 * backward.product_flops == 5 * forward(10, causal).product_flops);
}

TEST_CASE("a masked model has the causal one's formula, and computes both halves of the scores") {
  ModelConfig config = {2, 3, 12, 30, 8};
  const ModelDescription causal = describe(config);
  config.objective = Objective::masked;
  CHECK(describe(config).flops_per_token() == causal.flops_per_token());
  const auto core = [](const Sublayer& sublayer) {
    return operation_flops(sublayer, SublayerOperation::core, 8);
  };
  const Sublayer masked = dense_sublayers(config)[kAttention];
  CHECK(masked.mask == AttentionMask::none);
  // q with k and probabilities with v over 8 keys, and an exponential for each head and key.
  CHECK(core(masked) == 4 * 12 * 8 + 3 * 8);
  config.objective = Objective::causal;
  CHECK(2 * core(dense_sublayers(config)[kAttention]) == core(masked));
}

}  // namespace
}  // namespace ladder::testing
