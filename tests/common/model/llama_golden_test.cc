// The Llama family against Hugging Face's transformers in fp64: tests/golden/make_llama_golden.py
// says what the files hold. Mixtral is in tests/lessons/15_expert_parallel/gradient_test.cc.
#include "common/model/published_config.h"
#include "tests/common/model/support.h"
#include "tests/golden/golden_file.h"

namespace ladder::testing {
namespace {

// 1e-12 of a tensor's largest element. Both sides round at 2^-53 in sums of at most 23 terms and
// some 60 operations in a row.
constexpr double kBound = 1e-12;

class Golden : public GoldenFile {
 public:
  explicit Golden(const std::string& name)
      : GoldenFile(concat("tests/golden/llama_family/", name, ".safetensors")),
        config(read_published_config(concat("tests/golden/llama_family/", name, ".json"))) {}
  ModelConfig config;
};

// Changes a parameter's values on their way into the model.
using Change = std::function<void(const Parameter&, Values&)>;

// Returns the tensors that are off by more than kBound, or NaN, when a model with this
// configuration computes what the file has.
std::vector<std::string> differences(const Golden& golden, const ModelConfig& config,
                                     const Change& change = {}) {
  const std::vector<size_t> shape = golden.reader().find("tokens")->shape;
  const size_t batch = shape[0], time = shape[1], rows = batch * time, vocab = config.vocab_size;
  TestModel model(config, DType::fp64, batch, time);
  model.for_each(model.parameters, [&](const Parameter& parameter, TensorView part) {
    Values values = golden.values("param." + parameter.name);
    if (change) change(parameter, values);
    set_values(part, values);
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
    compare("grad." + parameter.name, values_of(part));
  });
  // Backward has used the activations.
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

TEST_CASE("fp64: loss, logits and every gradient as transformers computes them") {
  const auto [name, gradients] = GENERATE(
      table<std::string, size_t>({{"llama", 21}, {"qwen2", 26}, {"qwen3", 24}, {"mistral", 21}}));
  CAPTURE(name);
  const Golden golden(name);
  size_t parameters = 0;
  for (const UnitSpec& unit : describe(golden.config).units) parameters += unit.parameters.size();
  CHECK(parameters == gradients);
  CHECK(golden.reader().entries().size() == 4 + 2 * gradients);
  CHECK(differences(golden, golden.config) == std::vector<std::string>{});
}

TEST_CASE("the files' configurations are those of the script") {
  const ModelConfig llama = Golden("llama").config, qwen2 = Golden("qwen2").config,
                    qwen3 = Golden("qwen3").config, mistral = Golden("mistral").config;
  CHECK(llama.num_key_value_heads() == 1);
  CHECK(llama.untied);
  CHECK(llama.rope_scaling == Llama3Scaling{4, 1, 4, 12});
  CHECK(qwen2.biases == Biases::qkv);
  CHECK_FALSE(qwen2.untied);
  CHECK(qwen2.qk_norm == QkNorm::none);
  CHECK(qwen3.qk_norm == QkNorm::rmsnorm);
  CHECK(qwen3.biases == Biases::none);
  CHECK(qwen3.head_columns() == 10);
  CHECK(mistral.head_columns() == 6);
  CHECK(mistral.query_columns() != mistral.hidden);
}

TEST_CASE("the comparison finds mistakes that people made") {
  const Golden golden("llama");
  ModelConfig config = golden.config;
  Change change;
  SECTION("epsilon outside of the root") {
    // 1 / (sqrt(v) + e) is about 1 / sqrt(v + 2 e sqrt(v)), and v is about 1.
    config.norm_epsilon *= 2;
  }
  SECTION("pairs of neighbours are turned, not elements of the halves") {
    // A model that turns pairs needs q's and k's rows in another order; these are in that one.
    change = [&](const Parameter& parameter, Values& values) {
      if (!parameter.name.ends_with("q_proj.weight") && !parameter.name.ends_with("k_proj.weight"))
        return;
      const Values halves = values;
      const size_t columns = config.hidden, head = config.head_columns(), half = head / 2;
      for (size_t row = 0; row < values.size() / columns; ++row) {
        const size_t i = row % head, from = row - i + (i % 2) * half + i / 2;
        std::copy_n(halves.begin() + static_cast<std::ptrdiff_t>(from * columns), columns,
                    values.begin() + static_cast<std::ptrdiff_t>(row * columns));
      }
    };
  }
  SECTION("frequencies are not scaled") { config.rope_scaling.reset(); }
  SECTION("another base of the frequencies") { config.rope_theta = 10'000; }
  SECTION("one weight is off by 1e-9") {
    change = [](const Parameter& parameter, Values& values) {
      if (parameter.name == "layers.1.mlp.up_proj.weight") values[5] += 1e-9;
    };
  }
  CHECK(differences(golden, config, change).size() > 15);
}

TEST_CASE("the comparison finds mistakes with the norms of q and k") {
  const Golden golden("qwen3");
  ModelConfig config = golden.config;
  Change change;
  SECTION("left out") { config.qk_norm = QkNorm::none; }
  SECTION("q is normed with k's weight") {
    change = [&](const Parameter& parameter, Values& values) {
      const std::string k = "layers.0.self_attn.k_norm.weight";
      if (parameter.name == "layers.0.self_attn.q_norm.weight")
        values = golden.values("param." + k);
    };
  }
  SECTION("the halves of a weight change places") {
    change = [](const Parameter& parameter, Values& values) {
      if (!parameter.name.ends_with("k_norm.weight")) return;
      std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                  values.end());
    };
  }
  SECTION("one weight is off by 1e-9") {
    change = [](const Parameter& parameter, Values& values) {
      if (parameter.name == "layers.1.self_attn.k_norm.weight") values[5] += 1e-9;
    };
  }
  CHECK(differences(golden, config, change).size() > 15);
}

}  // namespace
}  // namespace ladder::testing
