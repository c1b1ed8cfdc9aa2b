// The choices that make a model's family: as flags, as texts, and together.
#include "common/model/family.h"

#include "common/model/layout.h"
#include "tests/catch.h"

namespace ladder {
namespace {

const FamilyChoice& choice_of(std::string_view name) {
  const auto found = std::ranges::find_if(
      family_choices(), [&](const FamilyChoice& choice) { return choice.name == name; });
  REQUIRE(found != family_choices().end());
  return *found;
}

// Returns the model with one choice set.
ModelConfig with(ModelConfig model, const char* name, const std::string& value) {
  REQUIRE(choice_of(name).set(model, value));
  return model;
}

const ModelConfig kLlama = find_preset("tiny-llama").config;
const ModelConfig kGpt2 = find_preset("tiny").config;

TEST_CASE("every choice of every preset reads back from its text") {
  for (const ModelPreset& preset : presets()) {
    INFO(preset.name);
    check_config(preset.config);
    ModelConfig read = preset.config;
    ModelConfig defaults = {};
    for (const FamilyChoice& choice : family_choices()) {
      const std::string text = choice.text(preset.config);
      if (!text.empty()) CHECK(choice.set(defaults, text));
      CHECK(choice.text(defaults) == text);
    }
    read.key_value_heads = defaults.key_value_heads;
    read.head_size = defaults.head_size;
    read.norm = defaults.norm;
    read.norm_epsilon = defaults.norm_epsilon;
    read.positions = defaults.positions;
    read.rope_theta = defaults.rope_theta;
    read.rope_scaling = defaults.rope_scaling;
    read.mlp = defaults.mlp;
    read.biases = defaults.biases;
    read.qk_norm = defaults.qk_norm;
    CHECK(read == preset.config);
  }
}

TEST_CASE("texts that are no value are refused") {
  const std::pair<const char*, std::vector<const char*>> texts[] = {
      {"key-value-heads", {"0", "-1", "2.5", "two", "10001", ""}},
      {"head-size", {"0", "100001", "8 "}},
      {"norm", {"RMSNorm", "batchnorm", ""}},
      {"norm-epsilon", {"0", "-1e-5", "nan", "inf", "1e-5x"}},
      {"positions", {"rope", ""}},
      {"rope-theta", {"0", "-1", "inf", "1e999"}},
      {"rope-scaling",
       {"linear", "llama3", "llama3:8,1,4", "llama3:8,1,4,8192,1", "llama3:0,1,4,8192",
        "llama3:8,4,1,8192", "llama3:8,1,4,0", "llama3:nan,1,4,8192", "llama3:8,1,inf,8192"}},
      {"mlp", {"relu", ""}},
      {"biases", {"some", ""}},
      {"qk-norm", {"layernorm", "yes", ""}},
  };
  for (const auto& [name, values] : texts) {
    for (const char* value : values) {
      INFO(name << " " << value);
      ModelConfig model = kLlama;
      CHECK_FALSE(choice_of(name).set(model, value));
    }
  }
}

TEST_CASE("the two families are not mixed") {
  const auto refusal = [](const ModelConfig& model) {
    try {
      check_config(model);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::pair<const char*, const char*> choices[] = {
      {"key-value-heads", "2"}, {"head-size", "8"},  {"norm-epsilon", "1e-06"},
      {"positions", "rotary"},  {"rope-theta", "5"}, {"rope-scaling", "llama3:8,1,4,8192"},
      {"mlp", "swiglu"},        {"biases", "none"},  {"qk-norm", "rmsnorm"},
  };
  for (const auto& [name, value] : choices) {
    CHECK_THAT(refusal(with(kGpt2, name, value)),
               StartsWith(concat("--", name, " ", value, ": goes with --norm rmsnorm")));
  }
  CHECK_THAT(refusal(with(kGpt2, "norm", "rmsnorm")), StartsWith("--positions learned: "));
  CHECK_THAT(refusal(with(kLlama, "norm", "layernorm")), ContainsSubstring("--norm rmsnorm"));
  CHECK_THAT(refusal(with(kLlama, "positions", "learned")), StartsWith("--positions learned: "));
  CHECK_THAT(refusal(with(kLlama, "mlp", "gelu")), StartsWith("--mlp gelu: "));
  CHECK_THAT(refusal(with(kLlama, "biases", "all")), StartsWith("--biases all: "));
  CHECK(refusal(with(kLlama, "key-value-heads", "3")) ==
        "--key-value-heads 3 does not divide --heads 4");
  CHECK_THAT(refusal(with(kLlama, "head-size", "31")), StartsWith("--head-size 31: "));
  CHECK(refusal(with(kLlama, "head-size", "34")) == "nothing");
}

// The parameter of the first block's unit that is called so.
const Parameter& parameter_of(const Layout& layout, const std::string& name) {
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (parameter.name == name) return parameter;
    }
  }
  FAIL(name);
  return layout.units()[0].parameters[0];
}

TEST_CASE("four ranks that split two key-value heads have each of them twice") {
  const std::string k = "layers.0.self_attn.k_proj.weight", q = "layers.0.self_attn.q_proj.weight";
  size_t counted = 0;
  for (size_t rank = 0; rank < 4; ++rank) {
    const Layout layout(kLlama, 1, {.tensor_rank = rank, .tensor_size = 4});
    const Parameter& keys = parameter_of(layout, k);
    CHECK(keys.copies == 2);
    CHECK(keys.full_shape == Shape{64, 128});
    CHECK(keys.shape == Shape{32, 128});
    CHECK(keys.ranges.first == rank / 2 * 32 * 128);
    CHECK(keys.counted == (rank % 2 == 0));
    const Parameter& queries = parameter_of(layout, q);
    CHECK(queries.copies == 1);
    CHECK(queries.shape == Shape{32, 128});
    CHECK(queries.ranges.first == rank * 32 * 128);
    CHECK(queries.counted);
    for (const Unit& unit : layout.units()) {
      for (const Parameter& p : unit.parameters) {
        if (p.counted) counted += p.shape.num_elements();
      }
    }
  }
  CHECK(counted == describe(kLlama).num_parameters());
}

TEST_CASE("every rank has the weights that norm its heads, and one of the copies counts") {
  ModelConfig model = kLlama;
  model.qk_norm = QkNorm::rmsnorm;
  const size_t layers = model.num_layers, head_size = model.head_columns();
  CHECK(describe(model).num_parameters() ==
        describe(kLlama).num_parameters() + layers * 2 * head_size);
  for (size_t size : {1, 4}) {
    for (size_t rank = 0; rank < size; ++rank) {
      const Layout layout(model, 1, {.tensor_rank = rank, .tensor_size = size});
      for (const char* name :
           {"layers.3.self_attn.q_norm.weight", "layers.3.self_attn.k_norm.weight"}) {
        const Parameter& norm = parameter_of(layout, name);
        CHECK(norm.shape == Shape{head_size});
        CHECK(norm.full_shape == norm.shape);
        CHECK(norm.copies == size);
        CHECK(norm.counted == (rank == 0));
        CHECK(norm.initial_value == 1);
        CHECK(norm.initial_deviation == 0);
        CHECK_FALSE(norm.decays());
      }
    }
  }
}

TEST_CASE("q, k and v are seen as one matrix, which none of them can leave") {
  const Layout layout(kLlama, 1);
  std::vector<float> memory(layout.num_elements());
  const TensorView flat(memory.data(), DType::fp32, DeviceType::cpu, {memory.size()});
  const ConstUnitView block = unit_of<ConstTensorView>(layout, 1, flat);
  CHECK(block[SublayerParameter::first_weight].shape() == Shape{128 + 2 * 64, 128});
  CHECK(block[SublayerParameter::first_bias].empty());
  ModelConfig frozen = kLlama;
  frozen.frozen = {"layers.0.self_attn.k_proj.weight"};
  CHECK_THROWS_WITH(describe(frozen),
                    "frozen layers.0.self_attn.k_proj.weight: is computed with "
                    "layers.0.self_attn.q_proj.weight; freeze both or none");
}

}  // namespace
}  // namespace ladder
