// Models with low-rank adapters against Hugging Face's peft in fp64:
// tests/golden/make_lora_golden.py says what the files hold.
#include "common/model/adapter_config.h"
#include "common/model/lora.h"
#include "common/model/published_config.h"
#include "common/model/weights.h"
#include "tests/common/model/support.h"
#include "tests/golden/golden_file.h"

namespace ladder::testing {
namespace {

// 1e-12 of a tensor's largest element. Both sides round at 2^-53 in sums of at most 48 terms and
// some 60 operations in a row.
constexpr double kBound = 1e-12;

std::string folder_of(const std::string& name) { return "tests/golden/lora/" + name; }

class Golden : public GoldenFile {
 public:
  explicit Golden(const std::string& name)
      : GoldenFile(folder_of(name) + "/golden.safetensors"),
        folder(folder_of(name)),
        config(read_published_config(folder + "/config.json")) {
    config.lora = read_adapter_config(folder, config);
  }
  std::string folder;
  ModelConfig config;
};

// Returns the tensors that are off by more than kBound, or NaN, when a model with this
// configuration computes what the file has.
std::vector<std::string> differences(const Golden& golden, const ModelConfig& config) {
  const std::vector<size_t> shape = golden.reader().find("tokens")->shape;
  const size_t batch = shape[0], time = shape[1], rows = batch * time, vocab = config.vocab_size;
  TestModel model(config, DType::fp64, batch, time);
  const WeightsFile adapters = WeightsFile::of_adapters(golden.folder, Layout(config, 1));
  model.for_each(model.parameters, [&](const Parameter& parameter, TensorView part) {
    if (adapters.has(parameter)) return adapters.read(parameter, part);
    set_values(part, golden.values("param." + parameter.name));
  });
  fill(stream(), model.gradients, 0);
  const Tokens tokens(golden.values("tokens"), time), targets(golden.values("targets"), time);
  const double weight = 1 / static_cast<double>(rows);

  std::vector<std::string> found;
  const auto compare = [&](const std::string& name, const Values& got) {
    const Values expected = golden.values(name);
    REQUIRE(got.size() == expected.size());
    Values off;
    for (size_t i = 0; i < got.size(); ++i) off.push_back(got[i] - expected[i]);
    if (!(largest(off) <= kBound * largest(expected))) found.push_back(name);
  };
  double loss = 0;
  for (double l : model.accumulate(tokens.all(), targets.all(), weight)) loss += weight * l;
  compare("loss", {loss});
  model.for_each(model.gradients, [&](const Parameter& parameter, TensorView part) {
    if (is_adapter(parameter.name)) compare("grad." + parameter.name, values_of(part));
  });
  model.gpt2.forward(stream(), model.activations, model.workspace, tokens.all());
  Values logits;
  const Tensor row(memory(), Category::workspace, DType::fp64, {1, vocab});
  for (size_t i = 0; i < rows; ++i) {
    model.gpt2.logits(stream(), row, model.activations, i);
    for (double value : values_of(row)) logits.push_back(value);
  }
  compare("logits", logits);
  return found;
}

TEST_CASE("fp64: loss, logits and the gradients of adapters as peft computes them") {
  const auto [name, factors, factor] = GENERATE(
      table<std::string, size_t, double>({{"gpt2", 8, 5. / 3}, {"llama", 12, 3 / std::sqrt(2.)}}));
  CAPTURE(name);
  const Golden golden(name);
  size_t adapters = 0;
  for (const UnitSpec& unit : describe(golden.config).units) {
    for (const ParameterSpec& parameter : unit.parameters) adapters += is_adapter(parameter.name);
  }
  CHECK(adapters == factors);
  CHECK(golden.config.lora->factor() == Approx(factor).epsilon(1e-15));
  CHECK(differences(golden, golden.config) == std::vector<std::string>{});
}

TEST_CASE("the comparison finds mistakes with adapters") {
  const Golden golden(GENERATE("gpt2", "llama"));
  ModelConfig config = golden.config;
  SECTION("alpha is another") { config.lora->alpha *= 1 + 1e-10; }
  SECTION("the scale is applied twice") { config.lora->alpha *= config.lora->factor(); }
  SECTION("the other scale") {
    config.lora->scale =
        config.lora->scale == LoraScale::rslora ? LoraScale::standard : LoraScale::rslora;
  }
  // The logits and all gradients; the loss may be off by less.
  CHECK(differences(golden, config).size() > (config.is_gpt2() ? 8 : 12));
}

TEST_CASE("the settings of peft's files are those of the script") {
  const LoraConfig gpt2 = *Golden("gpt2").config.lora, llama = *Golden("llama").config.lora;
  CHECK(gpt2 == LoraConfig{.rank = 3, .alpha = 5, .targets = {"attn.c_attn", "mlp.c_fc"}});
  CHECK(llama == LoraConfig{.rank = 2,
                            .alpha = 3,
                            .scale = LoraScale::rslora,
                            .targets = {"self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"}});
}

}  // namespace
}  // namespace ladder::testing
