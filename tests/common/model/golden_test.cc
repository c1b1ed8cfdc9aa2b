// The model and its optimizer against PyTorch: tests/golden/make_golden.py says what the file
// holds.
#include <map>

#include "tests/common/model/flat_adamw.h"
#include "tests/common/model/scratch_units.h"
#include "tests/golden/golden_file.h"

namespace ladder::testing {
namespace {

// What a training is known by: "step1.loss", "step1.grad.wte.weight", ...
using Record = std::map<std::string, Values>;

constexpr int kSteps = 3;

class Golden : public GoldenFile {
 public:
  Golden() : GoldenFile("tests/golden/gpt2_small.safetensors") {}

  ModelConfig config() const {
    return {setting("layers"), setting("heads"), setting("hidden"), setting("vocab"),
            setting("sequence_length")};
  }
  double rate(int step) const { return number(concat("step", step, ".learning_rate")); }
  AdamWStep update(int step, double norm) const {
    const OptimizerConfig clip = {.clip_norm = number("settings.clip_norm")};
    return {.learning_rate = rate(step),
            .beta1 = number("settings.beta1"),
            .beta2 = number("settings.beta2"),
            .epsilon = number("settings.epsilon"),
            .weight_decay = number("settings.weight_decay"),
            .grad_scale = clip_factor(clip, norm),
            .step = step};
  }
  size_t batch() const { return reader().find("step1.tokens")->shape[0]; }
  size_t time() const { return reader().find("step1.tokens")->shape[1]; }
  Record record() const {
    Record record;
    for (const SafetensorsEntry& entry : reader().entries()) {
      if (entry.name.starts_with("step")) record[entry.name] = values(entry.name);
    }
    for (int step = 1; step <= kSteps; ++step) {
      for (const char* input : {"tokens", "targets", "learning_rate"}) {
        REQUIRE(record.erase(concat("step", step, ".", input)) == 1);
      }
    }
    return record;
  }
};

struct Way {
  size_t micro_batch = 5;
  size_t world_size = 1;
  bool hooks = false;         // with ScratchUnits
  bool golden_start = false;  // every step starts from PyTorch's state, not from our last step's
  double loss_factor = 1;     // other than 1: wrong, to see that it is found
};

void load(const Golden& golden, const TestModel& model, const Tensor& flat,
          const std::string& prefix) {
  model.for_each(flat, [&](const Parameter& parameter, TensorView part) {
    set_values(part, golden.values(prefix + parameter.name));
  });
}

// Each rank of the layout updates its shard of every unit.
void update(const TestModel& model, const AdamWStep& step) {
  const size_t world_size = model.layout.world_size();
  for (const Unit& unit : model.layout.units()) {
    for (size_t rank = 0; rank < world_size; ++rank) {
      const size_t shard = unit.padded_elements / world_size, first = unit.offset + rank * shard;
      const auto part = [&](const Tensor& flat) { return flat.view().rows(first, shard); };
      adamw(stream(),
            adamw_tensors(model.layout, first,
                          {part(model.parameters), part(model.exp_avg), part(model.exp_avg_sq),
                           part(model.gradients)}),
            step);
    }
  }
}

Record train(const Golden& golden, DType dtype, const Way& way) {
  TestModel model(golden.config(), dtype, way.micro_batch, golden.time(), way.world_size);
  ScratchUnits scratch(model);
  const Hooks hooks = way.hooks ? scratch.hooks() : Hooks{};
  GradNorm grad_norm(memory(), model.layout);
  const double num_tokens = static_cast<double>(golden.batch() * golden.time());
  load(golden, model, model.parameters, "init.");
  Record record;
  for (int step = 1; step <= kSteps; ++step) {
    const std::string now = concat("step", step, "."), before = concat("step", step - 1, ".");
    if (way.golden_start && step > 1) {
      load(golden, model, model.parameters, before + "param.");
      load(golden, model, model.exp_avg, before + "exp_avg.");
      load(golden, model, model.exp_avg_sq, before + "exp_avg_sq.");
    }
    const Tokens tokens(golden.values(now + "tokens"), golden.time());
    const Tokens targets(golden.values(now + "targets"), golden.time());
    fill(stream(), model.gradients, 0);
    double loss = 0, square = 0;
    for (size_t row = 0; row < golden.batch(); row += way.micro_batch) {
      const size_t rows = std::min(way.micro_batch, golden.batch() - row);
      model.activations.resize(rows, golden.time());
      for (double l : model.accumulate(tokens.rows(row, rows), targets.rows(row, rows),
                                       way.loss_factor / num_tokens, hooks)) {
        loss += way.loss_factor * l / num_tokens;
      }
    }
    for (size_t rank = 0; rank < way.world_size; ++rank) {
      square += grad_norm.squared_norm(stream(), rank, model.gradients);
    }
    record[now + "loss"] = {loss};
    record[now + "grad_norm"] = {std::sqrt(square)};
    update(model, golden.update(step, std::sqrt(square)));
    const auto store = [&](const Tensor& flat, const std::string& prefix) {
      model.for_each(flat, [&](const Parameter& parameter, TensorView part) {
        record[now + prefix + parameter.name] = values_of(part);
      });
    };
    store(model.gradients, "grad.");
    store(model.parameters, "param.");
    store(model.exp_avg, "exp_avg.");
    store(model.exp_avg_sq, "exp_avg_sq.");
  }
  return record;
}

// What each element of the tensor `name` may be off by.
using Allowance = std::function<Values(const std::string& name)>;

// Names, with the worst element, the tensors of `got` that are off by more than allowed, missing,
// or not expected.
std::vector<std::string> differences(const Record& got, const Record& expected,
                                     const Allowance& allowance) {
  std::vector<std::string> found;
  for (const auto& [name, values] : expected) {
    if (!got.contains(name) || got.at(name).size() != values.size()) found.push_back(name);
    if (!got.contains(name)) continue;
    Values excess, allowed = allowance(name);
    for (size_t i = 0; i < std::min(values.size(), got.at(name).size()); ++i) {
      excess.push_back((got.at(name)[i] - values[i]) / allowed[i]);
    }
    const double worst = largest(excess);
    if (!(worst <= 1)) found.push_back(concat(name, ": ", worst, " times what it may be off"));
  }
  for (const auto& entry : got) {
    if (!expected.contains(entry.first)) found.push_back(entry.first + ": not expected");
  }
  return found;
}

// 1e-11 of a tensor's largest element. Both sides round at 2^-53 in sums of at most a few thousand
// terms and some 50 operations in a row, which makes 1e-12.
// The gradient g of the keys' bias is nothing but rounding, because softmax does not see a shift;
// AdamW turns it into moves of at most learning rate * |g| / epsilon a step, on both sides.
Allowance fp64_allowance(const Golden& golden, const Record& got, const Record& expected) {
  const size_t hidden = golden.config().hidden;
  std::map<std::string, double> allowed;
  double key_gradient = 0, rates = 0;
  for (const auto& [name, values] : expected) {
    allowed[name] = 1e-11 * largest(values);
    if (name.find(".grad.") == std::string::npos || !name.ends_with("c_attn.bias")) continue;
    for (const Values* side : {&values, &got.at(name)}) {
      key_gradient =
          std::max(key_gradient, largest({side->data() + hidden, side->data() + 2 * hidden}));
    }
  }
  for (int step = 1; step <= kSteps; ++step) rates += golden.rate(step);
  const double key_move = 2 * rates * key_gradient / golden.number("settings.epsilon");
  REQUIRE(key_move < 1e-9);  // it loosens next to nothing
  return [=](const std::string& name) {
    Values values(expected.at(name).size(), allowed.at(name));
    if (name.find(".param.") != std::string::npos && name.ends_with("c_attn.bias")) {
      for (size_t i = hidden; i < 2 * hidden; ++i) values[i] += key_move;
    }
    return values;
  };
}

// fp32 keeps 2^-24, and every step begins at PyTorch's state, so it is one step's rounding only.
// A gradient: the dot products on the way down and back (of 24, 24, 13, 24 and 96 elements, in two
// blocks) and the classifier's (24 and 61) are some 900 roundings in a row, which add up like a
// random walk: 30 * 2^-24 = 2e-6 of the largest element. Ten times that is allowed, for the norm
// (and with it the clip factor), moments (exp_avg_sq holds squares, which doubles it) and all.
// A parameter moves by rate * u, u = m / sqrt(v), |u| <= 1.002 in three steps (Cauchy-Schwarz over
// the weights of m and v). If the gradient is off by E, m and sqrt(v) are off by at most E each
// (bias corrected), and u by 2.1 E / (sqrt(v) - E) or, where that says nothing, 2.1.
Allowance fp32_allowance(const Golden& golden, const Record& expected) {
  constexpr double kError = 2e-5;
  return [&](const std::string& name) {
    const double scale = largest(expected.at(name));
    const size_t size = expected.at(name).size(), at = name.find("param.");
    if (at == std::string::npos) return Values(size, kError * scale);
    const std::string step = name.substr(0, at), parameter = name.substr(at + 6);
    const double error = kError * largest(expected.at(concat(step, "grad.", parameter)));
    const int number = step[4] - '0';
    const double beta2 = golden.number("settings.beta2"), rate = golden.rate(number);
    Values values = expected.at(concat(step, "exp_avg_sq.", parameter));
    for (double& value : values) {
      const double root = std::sqrt(value / (1 - std::pow(beta2, number)));
      const double moved = root > 2 * error ? error / (root - error) : 1;
      value = 0x1p-23 * scale + 2.1 * rate * moved;
    }
    return values;
  };
}

TEST_CASE("fp64: three steps as PyTorch does them, in micro-batches, padded, through hooks") {
  const Golden golden;
  const Record expected = golden.record();
  REQUIRE(expected.size() == kSteps * (2 + 4 * 28));
  const Way way = GENERATE(Way{}, Way{.micro_batch = 1}, Way{.micro_batch = 2},
                           Way{.world_size = 3}, Way{.micro_batch = 3, .world_size = 8},
                           Way{.micro_batch = 2, .world_size = 3, .hooks = true});
  CAPTURE(way.micro_batch, way.world_size, way.hooks);
  const Record got = train(golden, DType::fp64, way);
  CHECK(differences(got, expected, fp64_allowance(golden, got, expected)) ==
        std::vector<std::string>{});
}

TEST_CASE("fp32: each of the three steps as PyTorch does it") {
  const Golden golden;
  const Record expected = golden.record();
  const Way way = GENERATE(Way{.golden_start = true}, Way{.micro_batch = 1, .golden_start = true},
                           Way{.world_size = 3, .golden_start = true});
  const Record got = train(golden, DType::fp32, way);
  CHECK(differences(got, expected, fp32_allowance(golden, expected)) == std::vector<std::string>{});
}

TEST_CASE("weights and gradients in scratch memory give the same bits") {
  const Golden golden;
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  CHECK(train(golden, dtype, {.hooks = true}) == train(golden, dtype, {}));
  CHECK(train(golden, dtype, {.world_size = 3, .hooks = true}) ==
        train(golden, dtype, {.world_size = 3}));
}

TEST_CASE("the comparison finds what is wrong") {
  const Golden golden;
  const Record expected = golden.record();
  const Record good = train(golden, DType::fp64, {});
  const Allowance allowance = fp64_allowance(golden, good, expected);
  REQUIRE(differences(good, expected, allowance).empty());
  const auto named = [&](const Record& record) {
    const std::vector<std::string> found = differences(record, expected, allowance);
    return found.empty() ? std::string() : found[0].substr(0, found[0].find(':'));
  };

  for (const std::string name : {"step2.grad.h.1.mlp.c_fc.bias", "step1.grad.wpe.weight"}) {
    Record record = good;
    double& element = *std::ranges::max_element(record[name]);
    element = -element;
    CHECK(named(record) == name);
    element = std::nan("");
    CHECK(named(record) == name);
  }
  Record record = good;
  record.erase("step3.exp_avg.ln_f.bias");
  CHECK(named(record) == "step3.exp_avg.ln_f.bias");
  record = good;
  record["step3.more"] = {1};
  CHECK(named(record) == "step3.more");
  record = good;
  record["step3.param.h.0.attn.c_attn.bias"][golden.config().hidden] += 1e-4;  // a key's
  CHECK(named(record) == "step3.param.h.0.attn.c_attn.bias");

  const Record half = train(golden, DType::fp64, {.loss_factor = 0.5});
  size_t gradients = 0;
  for (const std::string& found : differences(half, expected, allowance)) {
    if (found.starts_with("step1.grad.")) ++gradients;
  }
  CHECK(gradients == 28);
  CHECK_FALSE(differences(train(golden, DType::fp32, {.golden_start = true, .loss_factor = 0.5}),
                          expected, fp32_allowance(golden, expected))
                  .empty());
}

}  // namespace
}  // namespace ladder::testing
