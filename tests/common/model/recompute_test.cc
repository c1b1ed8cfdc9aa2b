// Recomputation: the modes, what a plan drops and computes again, the walk, and that no bit
// changes.
#include "common/model/recompute.h"

#include <limits>

#include "common/model/train_choice.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kSmall = {
    .num_layers = 5, .num_heads = 2, .hidden = 8, .vocab_size = 11, .sequence_length = 7};
constexpr const char* kModes[] = {"none",  "cheap",   "attention", "mlp",     "block",
                                  "whole", "every-1", "every-2",   "every-3", "every-5"};

// "qkv attention" of a set of steps.
std::string text_of(const BlockOperations& steps) {
  constexpr const char* kNames[] = {"ln_1", "qkv", "attention", "middle",
                                    "ln_2", "fc",  "gelu",      "out"};
  std::string text;
  for (size_t step = 0; step < steps.size(); ++step) {
    if (steps[step]) text += concat(text.empty() ? "" : " ", kNames[step]);
  }
  return text;
}

TEST_CASE("modes drop what their names say") {
  const auto dropped = [](const char* name) { return text_of(parse_recompute(name).dropped); };
  CHECK(dropped("none") == "");
  CHECK(dropped("cheap") == "ln_1 ln_2 gelu");
  CHECK(dropped("attention") == "qkv attention");
  CHECK(dropped("mlp") == "fc gelu");
  CHECK(dropped("block") == "ln_1 qkv attention middle ln_2 fc gelu");
  CHECK(dropped("whole") == dropped("block"));
  CHECK(parse_recompute("every-12").group_size == 12);
  CHECK(parse_recompute("every-12").name == "every-12");
  CHECK(plan_recompute(parse_recompute("every-1"), 4, 2) ==
        plan_recompute(parse_recompute("block"), 4, 2));
}

TEST_CASE("names that are no mode are refused, and groups larger than the part") {
  for (const char* name : {"", "None", "every", "every-", "every-0", "every-01", "every--1",
                           "every-2x", "every-123456", "block,mlp"}) {
    INFO(name);
    CHECK_THROWS_AS(parse_recompute(name), UserError);
    CHECK_THROWS_WITH(parse_recompute(name),
                      StartsWith(concat("--recompute ", name, ": expected none, cheap")));
  }
  const RecomputeMode every_4 = parse_recompute("every-4");
  CHECK_THROWS_AS(plan_recompute(every_4, 3, 1), UserError);
  CHECK_THROWS_WITH(plan_recompute(every_4, 3, 1),
                    "--recompute every-4: a rank has only 3 transformer blocks; every-3 would do");
  CHECK_NOTHROW(plan_recompute(every_4, 4, 1));
  CHECK_NOTHROW(plan_recompute(every_4, 0, 1));  // a stage without blocks
}

// For each block of a plan its set, what it drops beside the steps within a block, and what runs
// again: "0 +out: ...".
std::vector<std::string> lines_of(const RecomputePlan& plan, size_t num_blocks) {
  std::vector<std::string> lines;
  for (size_t block = 0; block < num_blocks; ++block) {
    lines.push_back(concat(plan.set_of(block), plan.ends_group(block) ? "" : " +out", ": ",
                           text_of(plan.recomputed(block))));
  }
  return lines;
}

TEST_CASE("a group's blocks have a set each, and nothing is computed again that is still there") {
  const std::string all = "ln_1 qkv attention middle ln_2 fc gelu";
  using Lines = std::vector<std::string>;
  const auto lines = [](const char* mode, size_t num_in_flight) {
    return lines_of(plan_recompute(parse_recompute(mode), 5, num_in_flight), 5);
  };
  CHECK(lines("none", 2) == Lines(5, "0: "));
  CHECK(lines("mlp", 2) == Lines(5, "0: fc gelu"));
  // With one micro-batch in flight the last block's tensors are where forward left them.
  CHECK(lines("mlp", 1) == Lines{"0: fc gelu", "0: fc gelu", "0: fc gelu", "0: fc gelu", "0: "});
  CHECK(lines("every-2", 2) == Lines{"0 +out: " + all + " out", "1: " + all,
                                     "0 +out: " + all + " out", "1: " + all, "0: " + all});
  // Block 4 overwrites block 2's tensors, but for `out`, which it keeps. Nothing overwrites block
  // 3's.
  CHECK(lines("every-2", 1) ==
        Lines{"0 +out: " + all + " out", "1: " + all, "0 +out: " + all, "1: ", "0: "});
  CHECK(lines("every-5", 1) == Lines{"0 +out: ", "1 +out: ", "2 +out: ", "3 +out: ", "4: "});

  // A whole block runs again whatever is still there.
  CHECK(lines("whole", 1) == Lines(5, "0: " + all + " out"));
  CHECK(lines("whole", 2) == lines("whole", 1));

  const BlockOperations fc = 1U << 5, ln_2 = 1U << 4;
  const RecomputePlan mixed({fc | ln_2, fc, {}, ln_2, {}}, 1);
  CHECK(lines_of(mixed, 5) == Lines{"0: ln_2 fc", "0: ", "0: ", "0: ", "0: "});
  CHECK(mixed.sets() == std::vector<BlockOperations>{fc | ln_2});
  CHECK_THROWS_AS(RecomputePlan({BlockOperations(1U << kBlockOutput)}, 1), Error);
}

TEST_CASE("nothing runs again of groups that backward does not reach") {
  const std::string all = "ln_1 qkv attention middle ln_2 fc gelu";
  using Lines = std::vector<std::string>;
  const auto lines = [](const char* mode, const char* train) {
    ModelConfig model = kSmall;
    model.frozen = frozen_names(model, train);
    return lines_of(plan_recompute(parse_recompute(mode), model), 5);
  };
  CHECK(lines("every-2", "all") == lines_of(plan_recompute(parse_recompute("every-2"), 5, 1), 5));
  CHECK(lines("every-2", "bias") == lines("every-2", "all"));
  // Block 3 is the first that is trained, and its group begins with block 2.
  CHECK(lines("every-2", "last-2") == Lines{"0 +out: ", "1: ", "0 +out: " + all, "1: ", "0: "});
  CHECK(lines("every-2", "last-1") == Lines{"0 +out: ", "1: ", "0 +out: ", "1: ", "0: "});
  CHECK(lines("mlp", "last-3") == Lines{"0: ", "0: ", "0: fc gelu", "0: fc gelu", "0: "});
  CHECK(lines("whole", "last-1") == Lines{"0: ", "0: ", "0: ", "0: ", "0: " + all + " out"});
  ModelConfig norm = kSmall;  // alone is trained
  norm.frozen = {"wte", "wpe", "h.0", "h.1", "h.2", "h.3", "h.4"};
  CHECK(lines_of(plan_recompute(parse_recompute("whole"), norm), 5) == Lines(5, "0: "));
}

std::string walk_of(const Layout& layout, const RecomputePlan& plan) {
  std::string text;
  for (const Use& use : training_walk(layout, plan)) {
    if (use.pass != Pass::recompute && use.pass != Pass::backward) continue;
    text +=
        concat(text.empty() ? "" : ", ", layout.unit(use.unit).name, " ",
               use.pass == Pass::recompute ? "recompute" : "back", use.reads_weights ? "" : " -");
    CHECK((use.pass == Pass::backward || !(use.writes_gradient || use.gradient_is_final)));
  }
  return text;
}

TEST_CASE("the walk recomputes a group from its first block on, just before its backward") {
  ModelConfig config = kSmall;
  config.num_layers = 4;
  const Layout layout(config, 1), stage(config, 1, {.first = 3, .end = 6});  // h.1 to h.3
  const auto plan = [](const char* mode, size_t blocks, size_t in_flight) {
    return plan_recompute(parse_recompute(mode), blocks, in_flight);
  };
  CHECK(walk_of(layout, plan("every-2", 4, 2)) ==
        "ln_f back, h.2 recompute, h.3 recompute, h.3 back, h.2 back, "
        "h.0 recompute, h.1 recompute, h.1 back, h.0 back, wpe back -, wte back -");
  CHECK(walk_of(layout, plan("block", 4, 1)) ==
        "ln_f back, h.3 back, h.2 recompute, h.2 back, h.1 recompute, h.1 back, "
        "h.0 recompute, h.0 back, wpe back -, wte back -");
  CHECK(walk_of(stage, plan("every-2", 3, 2)) ==
        "h.3 recompute, h.3 back, h.1 recompute, h.2 recompute, h.2 back, h.1 back");
  // GELU reads no weights.
  const BlockOperations gelu = 1U << 6;
  CHECK(walk_of(stage, RecomputePlan({gelu, gelu, gelu}, 1)) ==
        "h.3 back, h.2 recompute -, h.2 back, h.1 recompute -, h.1 back");
}

// A model with a plan, and as many buffers as may be in flight.
struct Planned {
  Planned(const TestModel& model, const RecomputePlan& plan, size_t num_buffers)
      : workspace(memory(), model.layout, model.dtype, 2, 7),
        shared(memory(), model.layout, model.dtype, 2 * 7, plan, {}),
        gpt2(model.layout, model.parameters, model.gradients, {}, plan) {
    buffers.reserve(num_buffers);
    for (size_t i = 0; i < num_buffers; ++i) {
      buffers.emplace_back(memory(), model.layout, model.dtype, 2, 7, &shared);
    }
  }

  ModelWorkspace workspace;
  SharedActivations shared;
  std::vector<Activations> buffers;
  Model gpt2;
};

// The gradients of two micro-batches. With two buffers both go forward before the first goes back.
// In between, all dropped tensors that are to be computed again are overwritten with NaN.
Values gradients_of(TestModel& model, const RecomputePlan& plan, size_t num_buffers) {
  Planned planned(model, plan, num_buffers);
  const Tokens tokens(4, 7, 11, "tokens"), targets(4, 7, 11, "targets");
  const size_t num_blocks = model.layout.count(OperationKind::block);
  const auto specs = block_activation_specs(dense_sublayers(model.layout.config()));
  const auto forward = [&](size_t i) {
    const Activations& buffer = planned.buffers[i % num_buffers];
    planned.gpt2.forward(stream(), buffer, planned.workspace, tokens.rows(2 * i, 2));
    planned.gpt2.classify(stream(), buffer, planned.workspace, targets.rows(2 * i, 2), 1.0 / 28);
  };
  const auto backward = [&](size_t i) {
    const Activations& buffer = planned.buffers[i % num_buffers];
    for (size_t block = 0; block < num_blocks; ++block) {
      for (size_t k = 0; k < specs.size(); ++k) {
        const size_t step = specs[k].operation;
        if (specs[k].columns == 0) continue;
        if (!plan.recomputed(block)[step] || !plan.drops(block, step)) continue;
        // A later block's tensor that is still needed may lie in the same place.
        bool is_needed = false;
        for (size_t later = block + 1; later < num_blocks; ++later) {
          is_needed = is_needed || (plan.set_of(later) == plan.set_of(block) &&
                                    plan.drops(later, step) && !plan.recomputed(later)[step]);
        }
        if (!is_needed)
          fill(stream(), buffer.block(block)[k], std::numeric_limits<double>::quiet_NaN());
      }
    }
    planned.gpt2.backward(stream(), buffer, planned.workspace, tokens.rows(2 * i, 2));
  };
  fill(stream(), model.gradients, 0);
  forward(0);
  if (num_buffers == 2) forward(1);
  backward(0);
  if (num_buffers == 1) forward(1);
  backward(1);
  return values_of(model.gradients);
}

TEST_CASE("every mode gives the bits of none, with one micro-batch in flight and with two") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16);
  const ModelConfig config = GENERATE(ModelConfig(kSmall), llama_like(kSmall), qwen3_like(kSmall));
  INFO(name_of(dtype) << (config.is_gpt2() ? "" : ", Llama")
                      << (config.qk_norm == QkNorm::none ? "" : ", norms of q and k"));
  TestModel model(config, dtype, 2, 7);
  if (model.gradients.dtype() != accumulation_dtype(dtype)) {
    model.gradients = Tensor(memory(), Category::gradients, accumulation_dtype(dtype),
                             {model.layout.num_elements()});
  }
  model.randomize(0.3);
  for (const size_t num_buffers : {1, 2}) {
    const Values expected = gradients_of(model, {}, num_buffers);
    REQUIRE(largest(expected) > 1e-2);
    const auto is_same = [&](const RecomputePlan& plan) {
      return gradients_of(model, plan, num_buffers) == expected;
    };
    for (const char* mode : kModes) {
      INFO(mode << ", " << num_buffers << " in flight");
      CHECK(is_same(plan_recompute(parse_recompute(mode), 5, num_buffers)));
    }
    // Blocks that drop different tensors.
    const auto bits = [](unsigned steps) { return BlockOperations(steps); };
    CHECK(is_same(
        RecomputePlan({bits(0x7f), bits(0xff), bits(0x15), bits(0x60), bits(0x0a)}, num_buffers)));
  }
}

TEST_CASE("activations of another plan than the model's are refused") {
  TestModel model(kSmall, DType::fp32, 2, 7);
  Planned planned(model, plan_recompute(parse_recompute("mlp"), 5, 1), 1);
  const Tokens tokens(2, 7, 11, "tokens");
  CHECK_THROWS_AS(
      model.gpt2.backward(stream(), planned.buffers[0], planned.workspace, tokens.all()), Error);
}

}  // namespace
}  // namespace ladder::testing
