// The whole model: finite differences, row blocks, smaller micro-batches, logits, order of hooks.
#include "common/model/classifier.h"
#include "common/model/lora.h"
#include "kernels/runtime/threads.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kSmall = {
    .num_layers = 2, .num_heads = 2, .hidden = 8, .vocab_size = 11, .sequence_length = 7};

// The same with an inner layer that is narrower than q, k and v together, or wider than usual, and
// a classifier of its own.
ModelConfig small_with(size_t ffn, bool untied) {
  ModelConfig config = kSmall;
  config.ffn = ffn;
  config.untied = untied;
  return config;
}

// The model with adapters, of which nothing is frozen.
ModelConfig with_adapters(ModelConfig config, const std::string& targets, LoraScale scale) {
  config.lora = {.rank = 3, .alpha = 4, .scale = scale, .targets = lora_targets(config, targets)};
  return config;
}

const ModelConfig kAdapted[] = {
    with_adapters(kSmall, "qkv,proj,fc,mlp-proj", LoraScale::standard),
    with_adapters(small_with(20, true), "fc", LoraScale::rslora),
    with_adapters(small_with(40, false), "mlp.c_proj,qkv", LoraScale::standard),
    // Parts that lie apart in the layer's output.
    with_adapters(qwen3_like(kSmall), "q_proj,v_proj,up,down", LoraScale::rslora),
    with_adapters(llama_like(kSmall), "qkv,proj,gate,up", LoraScale::standard)};

// About `count` indices below `size`, spread evenly, the first and the last among them.
std::vector<size_t> spread(size_t size, size_t count) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < std::min(size, count); ++i) {
    indices.push_back(size <= count ? i : i * (size - 1) / (count - 1));
  }
  return indices;
}

double mean_loss(TestModel& model, const Tokens& tokens, const Tokens& targets) {
  model.gpt2.forward(stream(), model.activations, model.workspace, tokens.all());
  model.gpt2.evaluate(stream(), model.activations, model.workspace, targets.all());
  const Values losses = values_of(model.workspace.losses(model.activations));
  double sum = 0;
  for (double loss : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

// d mean_loss / d element, to fourth order: (8 (f1 - f-1) - (f2 - f-2)) / 12 h, off by
// h^4 f^(5) / 30 and by the loss's rounding, some 4 * 2^-53, over h. With h = 5e-4 the second is
// 1e-12; weights of deviation 0.3 keep the residual stream, and with it the fifth derivative, near
// 1, so that the first is 1e-12 even for an f^(5) of 500. The largest gradients are 2e-3 and more.
double difference(TestModel& model, const Tokens& tokens, const Tokens& targets, double& element) {
  constexpr double kStep = 5e-4;
  const double kept = element;
  const auto loss_at = [&](int steps) {
    element = kept + steps * kStep;
    return mean_loss(model, tokens, targets);
  };
  const double inner = loss_at(1) - loss_at(-1), outer = loss_at(2) - loss_at(-2);
  element = kept;
  return (8 * inner - outer) / (12 * kStep);
}

TEST_CASE("gradients are the derivatives of the mean loss") {
  set_num_threads(1);
  const ModelConfig config =
      GENERATE(ModelConfig(kSmall), small_with(20, false), small_with(40, false),
               small_with(0, true), llama_like(small_with(10, true)), llama_like(kSmall),
               qwen3_like(kSmall), kAdapted[0], kAdapted[1], kAdapted[2], kAdapted[3], kAdapted[4]);
  CAPTURE(config.ffn, config.untied, config.is_gpt2());
  TestModel model(config, DType::fp64, 3, 7);
  model.randomize(0.3);
  const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
  model.accumulate(tokens.all(), targets.all(), 1.0 / 21);
  model.for_each(model.parameters, [&](const Parameter& parameter, TensorView part) {
    INFO(parameter.name);
    Values gradient;
    model.for_each(model.gradients, [&](const Parameter& other, TensorView grad) {
      if (other.name == parameter.name) gradient = values_of(grad);
    });
    REQUIRE(largest(gradient) > 2e-3);
    for (size_t i : spread(gradient.size(), 36)) {
      const double numeric = difference(model, tokens, targets, part.as<double>()[i]);
      if (!(std::abs(gradient[i] - numeric) <= 1e-7 * largest(gradient))) {
        FAIL_CHECK(concat("element ", i, ": ", gradient[i], ", by differences ", numeric));
      }
    }
  });
}

TEST_CASE(
    "adapters begin by adding nothing: the losses are those of the model without, to the bit") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16);
  for (const ModelConfig& config : kAdapted) {
    ModelConfig without = config;
    without.lora.reset();
    TestModel model(config, dtype, 3, 7), plain(without, dtype, 3, 7);
    for (TestModel* one : {&model, &plain}) {
      initialize_parameters(stream(), one->layout, 1, 0, one->parameters);
    }
    const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
    CHECK(mean_loss(model, tokens, targets) == mean_loss(plain, tokens, targets));
  }
}

TEST_CASE("a second micro-batch adds to the gradients") {
  TestModel model(kSmall, DType::fp64, 3, 7);
  model.randomize(0.3);
  const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
  model.accumulate(tokens.all(), targets.all(), 1);
  const Values once = values_of(model.gradients);
  model.accumulate(tokens.all(), targets.all(), 1);
  Values twice = values_of(model.gradients);
  for (size_t i = 0; i < once.size(); ++i) twice[i] -= 2 * once[i];
  CHECK(largest(twice) <= 1e-13 * largest(once));  // sums of some hundred terms, 2^-53 each
}

// The first half leaves nothing in the workspace for the second one, between which other
// micro-batches run.
TEST_CASE("backward in two halves gives the same bits, with other work in between") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const ModelConfig config = GENERATE(ModelConfig(kSmall), llama_like(kSmall), qwen3_like(kSmall),
                                      kAdapted[0], kAdapted[2], kAdapted[3]);
  TestModel whole(config, dtype, 3, 7), halves(config, dtype, 3, 7);
  for (TestModel* model : {&whole, &halves}) model->randomize(0.3);
  const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
  whole.accumulate(tokens.all(), targets.all(), 1.0 / 21);
  const auto& [gpt2, activations, workspace] =
      std::tie(halves.gpt2, halves.activations, halves.workspace);
  gpt2.forward(stream(), activations, workspace, tokens.all());
  gpt2.classify(stream(), activations, workspace, targets.all(), 1.0 / 21);
  gpt2.backward(stream(), activations, workspace, tokens.all(), {}, BackwardHalf::input);
  CHECK(values_of(workspace.d_residual(activations)) ==
        values_of(whole.workspace.d_residual(whole.activations)));
  CHECK(values_of(halves.gradients) != values_of(whole.gradients));
  const BlockWorkspace scratch = workspace.block(activations);
  for (TensorView used : {workspace.d_residual(activations), scratch.hidden, scratch.inner,
                          scratch.row_dot, scratch.adapters}) {
    if (used.empty()) continue;  // there are no adapters
    fill(stream(), used, std::nan(""));
  }
  gpt2.backward(stream(), activations, workspace, tokens.all(), {}, BackwardHalf::weight);
  CHECK(values_of(halves.gradients) == values_of(whole.gradients));
}

TEST_CASE("evaluate gives the losses of classify, to the bit, and touches no gradient") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  TestModel model(kSmall, dtype, 3, 7);
  model.randomize(0.3);
  const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
  const Values trained = model.accumulate(tokens.all(), targets.all(), 1.0 / 21);
  const Values gradients = values_of(model.gradients);
  fill(stream(), model.workspace.losses(model.activations), std::nan(""));
  mean_loss(model, tokens, targets);
  CHECK(values_of(model.workspace.losses(model.activations)) == trained);
  CHECK(values_of(model.gradients) == gradients);
}

TEST_CASE("a micro-batch of several classifier blocks is the sum of smaller ones") {
  ModelConfig config = kSmall;
  config.sequence_length = 60;
  constexpr size_t kRows = 10;  // 600 tokens: two full blocks and a part of one
  constexpr size_t kBlockRows = classifier_rows(DeviceType::cpu);
  static_assert(kRows * 60 > 2 * kBlockRows && kRows * 60 % kBlockRows != 0);
  const Tokens tokens(kRows, 60, 11, "tokens"), targets(kRows, 60, 11, "targets");
  TestModel whole(config, DType::fp64, kRows, 60), parts(config, DType::fp64, 2, 60);
  for (TestModel* model : {&whole, &parts}) model->randomize(0.3);
  CHECK(whole.workspace.classifier().logits.shape() == Shape{kBlockRows, 11});

  const Values losses = whole.accumulate(tokens.all(), targets.all(), 1.0 / 600);
  Values part_losses;
  for (size_t row = 0; row < kRows; row += 2) {
    const Values part = parts.accumulate(tokens.rows(row, 2), targets.rows(row, 2), 1.0 / 600);
    part_losses.insert(part_losses.end(), part.begin(), part.end());
  }
  CHECK(part_losses == losses);  // row by row the same operations
  mean_loss(whole, tokens, targets);
  CHECK(values_of(whole.workspace.losses(whole.activations)) == losses);
  Values expected = values_of(whole.gradients), got = values_of(parts.gradients);
  REQUIRE(largest(expected) > 1e-2);
  for (size_t i = 0; i < got.size(); ++i) got[i] -= expected[i];
  // Sums of 600 rows in another order: at most 600 * 2^-53 of the sum of absolute values, which is
  // some ten times the sum.
  CHECK(largest(got) <= 1e-12 * largest(expected));
}

TEST_CASE("a smaller micro-batch in larger memory gives the same bits") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  ModelConfig config = kSmall;
  config.sequence_length = 40;
  TestModel large(config, dtype, 9, 40), exact(config, dtype, 3, 7);
  for (TestModel* model : {&large, &exact}) model->randomize(0.3);
  // The large one is full of other numbers first.
  const Tokens all(9, 40, 11, "other tokens"), tokens(3, 7, 11, "tokens");
  const Tokens targets(3, 7, 11, "targets");
  large.accumulate(all.all(), all.all(), 1.0 / 360);
  fill(stream(), large.gradients, 0);

  large.activations.resize(3, 7);
  const Values expected = exact.accumulate(tokens.all(), targets.all(), 1.0 / 21);
  CHECK(large.accumulate(tokens.all(), targets.all(), 1.0 / 21) == expected);
  CHECK(values_of(large.gradients) == values_of(exact.gradients));

  CHECK_THROWS_AS(exact.activations.resize(2, 11), Error);
  exact.activations.resize(21, 1);  // the same number of tokens
  CHECK(exact.activations.block(0)[SublayerActivation::statistics].shape() == Shape{21, 2, 1});
}

TEST_CASE("logits are those of the classifier") {
  TestModel model(kSmall, DType::fp64, 3, 7);
  model.randomize(0.3);
  const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
  model.gpt2.forward(stream(), model.activations, model.workspace, tokens.all());
  model.gpt2.evaluate(stream(), model.activations, model.workspace, targets.all());
  const Values losses = values_of(model.workspace.losses(model.activations));
  const Tensor logits(memory(), Category::workspace, DType::fp64, {1, 11});
  for (size_t row = 0; row < 21; ++row) {
    model.gpt2.logits(stream(), logits, model.activations, row);
    const Values l = values_of(logits);
    double sum = 0;
    for (double logit : l) sum += std::exp(logit);
    const double target = l[static_cast<size_t>(targets.all().as<int32_t>()[row])];
    // Logits of order 1 in a dozen roundings of 2^-53.
    CHECK(std::abs(std::log(sum) - target - losses[row]) <= 1e-14);
  }
}

// The calls of the hooks, such as "weights 0 forward".
struct HookRecord {
  explicit HookRecord(TestModel& model)
      : hooks{.weights =
                  [this, &model](const Use& use) {
                    calls.push_back(concat("weights ", use.unit, " ", name_of(use.pass)));
                    return unit_of<ConstTensorView>(model.layout, use.unit, model.parameters);
                  },
              .gradient =
                  [this, &model](const Use& use) {
                    gradients.push_back(use.unit);
                    return unit_of<TensorView>(model.layout, use.unit, model.gradients);
                  },
              .done =
                  [this](const Use& use) {
                    calls.push_back(concat("done ", use.unit, " ", name_of(use.pass)));
                    walked.push_back(use);
                  }} {}

  Hooks hooks;
  std::vector<std::string> calls;
  std::vector<size_t> gradients;
  std::vector<Use> walked;
};

TEST_CASE("hooks are called unit by unit, in the same order on every micro-batch") {
  TestModel model(kSmall, DType::fp64, 3, 7);
  model.randomize(0.3);
  const Tokens tokens(3, 7, 11, "tokens"), targets(3, 7, 11, "targets");
  // Units: 0 token embedding, 1 position embedding, 2 and 3 blocks, 4 final norm. Backward of the
  // embeddings needs no weights; the token embedding is done last.
  const std::vector<std::string> expected = {
      "weights 0 forward",  "done 0 forward",  "weights 1 forward",    "done 1 forward",
      "weights 2 forward",  "done 2 forward",  "weights 3 forward",    "done 3 forward",
      "weights 4 forward",  "done 4 forward",  "weights 0 classifier", "done 0 classifier",
      "weights 4 backward", "done 4 backward", "weights 3 backward",   "done 3 backward",
      "weights 2 backward", "done 2 backward", "done 1 backward",      "done 0 backward"};
  HookRecord first(model), second(model), forward_only(model);
  model.accumulate(tokens.all(), targets.all(), 1.0 / 21, first.hooks);
  CHECK(first.calls == expected);
  CHECK(first.gradients == std::vector<size_t>{0, 4, 3, 2, 1, 0});
  CHECK(first.walked == training_walk(model.layout));
  model.accumulate(tokens.all(), targets.all(), 1.0 / 21, second.hooks);
  CHECK(second.calls == first.calls);
  CHECK(second.gradients == first.gradients);

  model.gpt2.forward(stream(), model.activations, model.workspace, tokens.all(),
                     forward_only.hooks);
  model.gpt2.evaluate(stream(), model.activations, model.workspace, targets.all(),
                      forward_only.hooks);
  CHECK(forward_only.calls == std::vector(expected.begin(), expected.begin() + 12));
  CHECK(forward_only.gradients.empty());
}

TEST_CASE("done alone is called just so") {
  TestModel model(kSmall, DType::fp64, 3, 7);
  const Tokens tokens(3, 7, 11, "tokens");
  std::vector<size_t> finished;
  Hooks hooks;
  hooks.done = [&](const Use& use) {
    if (use.gradient_is_final) finished.push_back(use.unit);
  };
  model.accumulate(tokens.all(), tokens.all(), 1, hooks);
  CHECK(finished == std::vector<size_t>{4, 3, 2, 1, 0});
}

}  // namespace
}  // namespace ladder::testing
