// Lesson 01's trainer: its memory, accumulation, determinism, evaluation, and that it learns.
#include "lessons/01_single_gpu/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "common/comm/one_rank.h"
#include "common/data/batch.h"
#include "common/io/safetensors.h"
#include "common/train/program/prediction.h"
#include "common/train/run/outputs.h"
#include "kernels/runtime/threads.h"
#include "tests/catch.h"
#include "tests/common/model/flat_adamw.h"

namespace ladder {
namespace {

using Values = std::vector<double>;

RunConfig nano_run(DType dtype) {
  RunConfig config;
  config.model = {
      .num_layers = 2, .num_heads = 2, .hidden = 32, .vocab_size = 256, .sequence_length = 32};
  config.global_batch_size = config.micro_batch_size = 8;
  config.optimizer.num_steps = 30;
  config.optimizer.warmup_steps = 2;
  config.dtype = dtype;
  return config;
}

// A trainer with its surroundings.
struct Session {
  explicit Session(const RunConfig& config_) : config(config_) {
    trainer = std::make_unique<SingleGpuTrainer>(
        TrainerContext{config, corpus, device, host, stream}, SingleGpuTrainer::Flags{});
    trainer->state().initialize();
  }
  void visit(std::string_view kind, const TensorSink& sink) {
    full_tensors.visit(config.optimizer, kind, trainer->state().slices(kind), stream, sink);
  }
  // "loss", "grad_norm" and every tensor, such as "grad.wte.weight".
  std::map<std::string, Values> state() {
    std::map<std::string, Values> state = {{"loss", {last.loss}}, {"grad_norm", {last.grad_norm}}};
    for (std::string_view kind : kDumpedKinds) {
      visit(kind, [&](const ParameterSpec& parameter, ConstTensorView tensor) {
        Values& values = state[concat(kind, ".", parameter.name)];
        dispatch_float(tensor.dtype(), [&](auto zero) {
          const auto* const elements = tensor.as<decltype(zero)>();
          values.assign(elements, elements + tensor.num_elements());
        });
      });
    }
    return state;
  }
  Session& run(int num_steps) {
    for (int step = 0; step < num_steps; ++step) last = trainer->step();
    return *this;
  }

  RunConfig config;
  Corpus corpus = Corpus::king_james();
  Memory device{DeviceType::cpu, "device", 0}, host{DeviceType::cpu, "host", 0};
  Stream stream{DeviceType::cpu};
  Communicator alone{std::make_unique<OneRank>()};
  FullTensors full_tensors{host, describe(config.model), config.accumulation(), alone};
  std::unique_ptr<SingleGpuTrainer> trainer;
  StepResult last;
};

TEST_CASE("peak memory is as predicted, in every category") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const auto [batch, micro_batch, length] = GENERATE(
      table<size_t, size_t, size_t>({{8, 8, 32}, {8, 2, 32}, {6, 3, 17}, {1, 1, 1}, {12, 12, 31}}));
  CAPTURE(dtype, batch, micro_batch, length);
  RunConfig config = nano_run(dtype);
  config.global_batch_size = batch;
  config.micro_batch_size = micro_batch;
  config.model.sequence_length = length;
  Session session(config);
  session.run(2);
  session.trainer->evaluate(2);
  session.state();

  const Prediction predicted = predict<SingleGpuTrainer>(config, {}, {});
  for (Category category : kCategories) {
    CAPTURE(name_of(category));
    CHECK(session.device.peak()[category] == predicted.device[category]);
    CHECK(session.host.peak()[category] == predicted.host[category]);
  }
  CHECK(predicted.device[Category::optimizer] == 2 * predicted.device[Category::parameters]);
  CHECK(predicted.device[Category::communication] == 0);
  session.trainer.reset();
  CHECK(session.device.current().total() == 0);
}

double largest(const Values& values) {
  double result = 0;
  for (double value : values) result = std::max(result, std::abs(value));
  return result;
}

// 1e-11 of the tensor's largest element: sums of 256 tokens in another order, at 2^-53 each. The
// bias of the keys has a gradient g of nothing but rounding, which AdamW turns into moves of at
// most learning rate * |g| / epsilon a step, on both sides.
TEST_CASE("accumulating micro-batches changes nothing") {
  constexpr int kSteps = 3;
  RunConfig config = nano_run(DType::fp64);
  const auto whole = Session(config).run(kSteps).state();
  config.micro_batch_size = GENERATE(1, 2, 4);
  const auto parts = Session(config).run(kSteps).state();
  REQUIRE(whole.size() == 2 + 4 * 28);
  double key_gradient = 0;  // the keys are the middle third
  for (const auto* state : {&whole, &parts}) {
    for (const auto& [name, values] : *state) {
      if (!name.starts_with("grad.") || !name.ends_with("attn.c_attn.bias")) continue;
      for (size_t i = 32; i < 64; ++i) key_gradient = std::max(key_gradient, std::abs(values[i]));
    }
  }
  key_gradient *= 10;  // for the steps before the last
  REQUIRE(key_gradient < 1e-14);
  const OptimizerConfig& optimizer = config.optimizer;
  const double key_move = 2 * kSteps * optimizer.learning_rate * key_gradient / optimizer.epsilon;
  for (const auto& [name, values] : whole) {
    Values errors = parts.at(name);
    for (size_t i = 0; i < values.size(); ++i) errors[i] -= values[i];
    const bool has_keys = name.starts_with("param.") && name.ends_with("attn.c_attn.bias");
    const double allowed = 1e-11 * largest(values) + (has_keys ? key_move : 0);
    INFO(name);
    CHECK(std::ranges::all_of(errors, [&](double e) { return std::abs(e) <= allowed; }));
  }
}

TEST_CASE("the same run gives the same bits twice, in fp64 with any number of threads") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const RunConfig config = nano_run(dtype);
  set_num_threads(1);
  const auto once = Session(config).run(3).state();
  CHECK(Session(config).run(3).state() == once);
  set_num_threads(2);
  const auto with_two = Session(config).run(3).state();
  CHECK(Session(config).run(3).state() == with_two);
  if (dtype == DType::fp64) CHECK(with_two == once);
  set_num_threads(1);
  RunConfig other = config;
  other.seed = 2;
  CHECK(Session(other).run(3).state() != once);
}

// The gradients of each step of 256 tokens, from the parts that the trainer is made of.
std::vector<Values> gradients_written_out(const RunConfig& config, int num_steps) {
  const size_t batch = config.global_batch_size, length = config.model.sequence_length;
  const Layout layout(config.model, 1);
  const Corpus corpus = Corpus::king_james();
  Memory memory(DeviceType::cpu, "device", 0);
  Stream stream(DeviceType::cpu);
  std::vector<Tensor> flat;  // parameters and moments
  for (int i = 0; i < 3; ++i) {
    flat.emplace_back(memory, Category::parameters, DType::fp64, Shape{layout.num_elements()});
  }
  Activations activations(memory, layout, DType::fp64, batch, length);
  ModelWorkspace workspace(memory, layout, DType::fp64, batch, length);
  GradNorm norm(memory, layout);
  initialize_parameters(stream, layout, config.seed, 0, flat[0]);
  std::vector<Values> result;
  for (int step = 1; step <= num_steps; ++step) {
    const Tensor grads(memory, Category::gradients, DType::fp64, {layout.num_elements()});
    const Tensor tokens(memory, Category::workspace, DType::int32, {batch, length});
    const Tensor targets(memory, Category::workspace, DType::int32, {batch, length});
    fill_batch(corpus, Split::train, config.seed, static_cast<uint64_t>(step), 0, tokens, targets);
    const Model model(layout, flat[0], grads);
    model.forward(stream, activations, workspace, TokenViews(tokens));
    model.classify(stream, activations, workspace, targets, 1.0 / 256);
    model.backward(stream, activations, workspace, TokenViews(tokens));
    const double grad_norm = std::sqrt(norm.squared_norm(stream, 0, grads));
    const OptimizerConfig& optimizer = config.optimizer;
    adamw(stream, testing::adamw_tensors(layout, 0, {flat[0], flat[1], flat[2], grads}),
          {.learning_rate = learning_rate_at(optimizer, step),
           .beta1 = optimizer.beta1,
           .beta2 = optimizer.beta2,
           .epsilon = optimizer.epsilon,
           .weight_decay = optimizer.weight_decay,
           .grad_scale = clip_factor(optimizer, grad_norm),
           .step = step});
    const double* const elements = grads.view().as<double>();
    result.emplace_back(elements, elements + layout.num_parameters());
  }
  return result;
}

TEST_CASE("a step is forward, classify, backward and update on the batch of that step") {
  const RunConfig config = nano_run(DType::fp64);
  Session session(config);
  for (const Values& expected : gradients_written_out(config, 3)) {
    Values got;
    session.run(1).visit(kGrad, [&](const ParameterSpec&, ConstTensorView tensor) {
      const double* const elements = tensor.as<double>();
      got.insert(got.end(), elements, elements + tensor.num_elements());
    });
    CHECK(got == expected);  // the sizes of this model need no padding
  }
}

TEST_CASE("it learns") {
  RunConfig config = nano_run(DType::fp32);
  config.optimizer.learning_rate = 1e-2;
  Session session(config);
  // Knowing nothing costs ln 256 for a byte. Weights of deviation 0.02 make logits of deviation
  // 0.02 sqrt(32) = 0.11, whose square over two is what they may add; the mean is over 256 tokens.
  CHECK(std::abs(session.run(1).last.loss - std::log(256.0)) < 0.05);
  double last = 0;
  session.run(24);
  for (int step = 0; step < 5; ++step) last += session.run(1).last.loss / 5;
  // The frequencies of the bytes alone are worth ln 256 - 3.1 nats; a good half of it is asked for.
  CHECK(last < std::log(256.0) - 1.25);
  CHECK(session.last.learning_rate == learning_rate_at(config.optimizer, 30));
  CHECK(session.trainer->evaluate(4) < std::log(256.0) - 1.25);
}

TEST_CASE("clipping bounds the update, and the dumped gradient is the one before it") {
  RunConfig config = nano_run(DType::fp64);
  config.optimizer.clip_norm = 1e-3;
  Session session(config);
  const auto state = session.run(1).state();
  double squares = 0, moment_squares = 0;
  for (const auto& [name, values] : state) {
    for (double value : values) {
      if (name.starts_with("grad.")) squares += value * value;
      if (name.starts_with("exp_avg.")) moment_squares += value * value;
    }
  }
  CHECK(session.last.grad_norm > 0.1);
  CHECK(std::sqrt(squares) == Approx(session.last.grad_norm).epsilon(1e-12));
  // After one step the first moment is (1 - beta1) times the clipped gradient, of norm 1e-3.
  CHECK(std::sqrt(moment_squares) == Approx((1 - 0.9) * 1e-3).epsilon(1e-12));
}

TEST_CASE("evaluating leaves training as it is, and is the same every time") {
  const RunConfig config = nano_run(DType::fp32);
  Session plain(config), evaluated(config);
  plain.run(2);
  evaluated.run(1);
  const double loss = evaluated.trainer->evaluate(2);
  CHECK(evaluated.trainer->evaluate(2) == loss);
  evaluated.run(1).trainer->evaluate(1);
  CHECK(evaluated.state() == plain.state());
}

TEST_CASE("evaluation is a mean: micro-batches do not matter, and one batch is part of two") {
  RunConfig config = nano_run(DType::fp64);
  const double whole = Session(config).trainer->evaluate(2);
  config.micro_batch_size = 2;
  CHECK(std::abs(Session(config).trainer->evaluate(2) - whole) < 1e-13);  // 512 losses near 5
  Session session(config);
  const double first = session.trainer->evaluate(1);
  CHECK(first != whole);
  CHECK(std::abs(first - whole) < 0.05);
  // The second batch's loss: not that of the training batch of the same number.
  CHECK(std::abs(2 * whole - first - session.run(1).last.loss) > 1e-9);
}

TEST_CASE("a run starts from the parameters of a dump") {
  const char* const parent = std::getenv("TEST_TMPDIR");
  std::string folder = std::string(parent != nullptr ? parent : "/tmp") + "/init_XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  RunConfig config = nano_run(GENERATE(DType::fp32, DType::fp64));
  Session source(config);
  source.run(2);
  write_dump(folder, 2, source.last, describe(config.model), config.dtype,
             [&](std::string_view kind, const TensorSink& sink) { source.visit(kind, sink); });

  const SafetensorsReader dump(folder + "/step_000002.safetensors");
  const std::string prefix = "param.", weights = folder + "/weights.safetensors";
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const SafetensorsEntry& entry : dump.entries()) {
    if (!entry.name.starts_with(prefix)) continue;
    tensors.push_back({entry.name.substr(prefix.size()), config.dtype, entry.shape});
  }
  SafetensorsWriter writer(weights, tensors);
  for (const auto& tensor : tensors) {
    const SafetensorsEntry& entry = *dump.find(prefix + tensor.name);
    const Tensor values(source.host, Category::workspace, config.dtype, {entry.num_elements()});
    dump.read(entry, values);
    writer.write(values);
  }
  writer.finish();

  config.init = weights;
  Session started(config);
  const auto got = started.state(), expected = source.state();
  for (const auto& [name, values] : expected) {
    INFO(name);
    if (name.starts_with(prefix)) CHECK(got.at(name) == values);
    if (name.starts_with("exp_avg")) CHECK(got.at(name) == Values(values.size(), 0));
  }
  CHECK(started.trainer->evaluate(1) == source.trainer->evaluate(1));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ladder
