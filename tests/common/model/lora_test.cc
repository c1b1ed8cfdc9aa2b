// Low-rank adapters: their names, shapes, first values and FLOP, and what is refused.
#include "common/model/lora.h"

#include <map>

#include "common/model/train_choice.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

using Names = std::vector<std::string>;

const ModelConfig kGpt2 = {3, 4, 16, 23, 5};

// The model with adapters of these layers, of which nothing else is trained.
ModelConfig adapted(ModelConfig model, const std::string& targets, size_t rank = 2) {
  model.lora = {.rank = rank, .alpha = 6, .targets = lora_targets(model, targets)};
  model.frozen = frozen_names(model, kTrainLora);
  return model;
}

// "NAME SHAPE" of what is trained, in its order.
Names trained_of(const ModelConfig& config) {
  Names names;
  for (const UnitSpec& unit : describe(config).units) {
    for (const ParameterSpec& p : unit.parameters) {
      if (p.trainable) names.push_back(concat(p.name, " ", to_string(p.shape)));
    }
  }
  return names;
}

TEST_CASE("each part of a target has an A and a B, with peft's names and shapes") {
  ModelConfig one = kGpt2;
  one.num_layers = 1;
  CHECK(trained_of(adapted(one, "mlp-proj,qkv")) ==
        Names{"h.0.attn.c_attn.lora_A.weight (2, 16)", "h.0.attn.c_attn.lora_B.weight (48, 2)",
              "h.0.mlp.c_proj.lora_A.weight (2, 64)", "h.0.mlp.c_proj.lora_B.weight (16, 2)"});
  one = find_preset("nano-llama").config;
  one.num_layers = 1;
  one.ffn = 24;
  CHECK(trained_of(adapted(one, "v_proj,self_attn.q_proj,down", 3)) ==
        Names{"layers.0.self_attn.q_proj.lora_A.weight (3, 32)",
              "layers.0.self_attn.v_proj.lora_A.weight (3, 32)",
              "layers.0.self_attn.q_proj.lora_B.weight (32, 3)",
              "layers.0.self_attn.v_proj.lora_B.weight (16, 3)",
              "layers.0.mlp.down_proj.lora_A.weight (3, 24)",
              "layers.0.mlp.down_proj.lora_B.weight (32, 3)"});
}

TEST_CASE("peft's numbers of parameters: GPT-2 124M with rank 8 on c_attn") {
  const ModelDescription model = describe(adapted(find_preset("gpt2").config, "c_attn", 8));
  CHECK(model.num_trained_parameters() == 294'912);
  CHECK(model.num_parameters() == 124'734'720);
}

TEST_CASE("short names and published ones name the same layers") {
  const auto targets = [](const ModelConfig& model, const char* list) {
    return lora_targets(model, list);
  };
  const ModelConfig llama = llama_like(kGpt2);
  CHECK(targets(kGpt2, "qkv") == Names{"attn.c_attn"});
  CHECK(targets(kGpt2, "c_proj,c_proj") == Names{"attn.c_proj", "mlp.c_proj"});
  CHECK(targets(kGpt2, "mlp-proj,proj") == targets(kGpt2, "c_proj"));
  CHECK(targets(kGpt2, "mlp.c_proj") == Names{"mlp.c_proj"});
  CHECK(targets(kGpt2, "fc") == targets(kGpt2, "c_fc"));
  CHECK(targets(llama, "qkv") == targets(llama, "q_proj,k_proj,v_proj"));
  CHECK(targets(llama, "down,gate,up,proj") ==
        Names{"self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"});
  const std::string has = "' is no linear layer of a block of this model; it has ";
  CHECK_THROWS_WITH(targets(llama, "qkv,fc"), "--lora-targets qkv,fc: 'fc" + has +
                                                  "qkv, proj, gate, up, down, or published names");
  CHECK_THROWS_WITH(targets(kGpt2, "gate"), "--lora-targets gate: 'gate" + has +
                                                "qkv, proj, fc, mlp-proj, or published names");
  for (const char* list : {"", "qkv,", "wte", "h.0.attn.c_attn", "attn", "ln_1"}) {
    CHECK_THROWS_AS(targets(kGpt2, list), UserError);
  }
}

TEST_CASE("a rank above the layer and other sizes that cannot be are refused") {
  ModelConfig model = adapted(kGpt2, "fc", 16);
  CHECK_NOTHROW(describe(model));
  const auto fault = [&](auto change) -> std::string {
    ModelConfig changed = model;
    change(*changed.lora);
    try {
      describe(changed);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(fault([](LoraConfig& lora) { lora.rank = 17; }) ==
        "--lora-rank 17: mlp.c_fc has 16 inputs and 64 outputs; take at most 16");
  CHECK(fault([](LoraConfig& lora) { lora.rank = 0; }) == "--lora-rank 0: take 1 or more");
  CHECK(fault([](LoraConfig& lora) { lora.alpha = 0; }) ==
        "--lora-alpha 0: expected a number above 0");
  CHECK(fault([](LoraConfig& lora) { lora.targets = {}; }) == "--lora-targets: names no layer");
  CHECK(fault([](LoraConfig& lora) { lora.targets = {"mlp.up_proj"}; }) ==
        "--lora-targets: the model has no mlp.up_proj");
  model.experts = {.num_experts = 2};
  model.frozen = frozen_names(model, kTrainLora);
  CHECK_NOTHROW(describe(model));
}

TEST_CASE("the factor is alpha / r, or with rslora alpha / sqrt(r)") {
  LoraConfig lora = {.rank = 16, .alpha = 32};
  CHECK(lora.factor() == 2);
  lora.scale = LoraScale::rslora;
  CHECK(lora.factor() == 8);
  lora.targets = {"attn.c_attn", "mlp.c_fc"};
  CHECK(lora_text(lora) == "rank 16, alpha 32 (rslora) on attn.c_attn,mlp.c_fc");
}

TEST_CASE("B is zero, and A has the same bits on any number of tensor-parallel ranks") {
  for (const ModelConfig& config :
       {adapted(kGpt2, "qkv,proj,fc,mlp-proj"), adapted(llama_like(kGpt2), "qkv,proj,up,down")}) {
    // By parameter: its elements, those of one rank.
    std::map<std::string, Values> whole;
    for (const size_t size : {1, 2, 4}) {
      for (size_t rank = 0; rank < size; ++rank) {
        const Layout layout(config, 1, {.tensor_rank = rank, .tensor_size = size});
        const Tensor flat(memory(), Category::parameters, DType::fp32, {layout.num_elements()});
        initialize_parameters(stream(), layout, 7, 0, flat);
        for (const Unit& unit : layout.units()) {
          for (const Parameter& p : unit.parameters) {
            if (!is_adapter(p.name)) continue;
            const Values held = values_of(flat.view().elements(unit.offset + p.offset, p.shape));
            CHECK((p.name.ends_with("lora_B.weight") ? largest(held) == 0 : largest(held) > 0));
            CHECK(p.trainable);
            if (size == 1) whole[p.name] = held;
            for_ranges_in(p, 0, held.size(), [&](size_t from, size_t at, size_t count) {
              for (size_t i = 0; i < count; ++i) CHECK(held[from + i] == whole[p.name][at + i]);
            });
          }
        }
      }
    }
    CHECK(whole.size() == 3 * 2 * config.lora->targets.size());
  }
}

TEST_CASE(
    "what a layer's split leaves whole has a copy on each rank, and what it splits has none") {
  const auto layout = [](const ModelConfig& config, size_t rank) {
    return Layout(config, 1, {.tensor_rank = rank, .tensor_size = 4});
  };
  const auto find = [](const Layout& all, const std::string& name) {
    for (const Parameter& p : all.unit(2).parameters) {
      if (p.name == name) return p;
    }
    for (const Parameter& p : all.unit(1).parameters) {
      if (p.name == name) return p;
    }
    FAIL("no " << name);
    return Parameter();
  };
  const auto check_held = [&](const ModelConfig& config, const std::string& name,
                              const Shape& shape, size_t copies, size_t first) {
    const Layout all = layout(config, 2);
    const Parameter p = find(all, name);
    INFO(name);
    CHECK(p.shape == shape);
    CHECK(p.copies == copies);
    CHECK(p.split);
    CHECK(p.counted == (copies == 1));
    CHECK(p.ranges.first == first);
  };
  const ModelConfig gpt2 = adapted(kGpt2, "qkv,mlp-proj");
  check_held(gpt2, "h.0.attn.c_attn.lora_A.weight", {2, 16}, 4, 0);
  // The third rank's head of q, then of k and of v: rows 8 to 11 of each 16.
  check_held(gpt2, "h.0.attn.c_attn.lora_B.weight", {12, 2}, 1, 8 * 2);
  CHECK(find(layout(gpt2, 2), "h.0.attn.c_attn.lora_B.weight").ranges.stride == 16 * 2);
  check_held(gpt2, "h.0.mlp.c_proj.lora_A.weight", {2, 16}, 1, 2 * 16);
  check_held(gpt2, "h.0.mlp.c_proj.lora_B.weight", {16, 2}, 4, 0);
  const ModelConfig llama = adapted(llama_like(kGpt2), "qkv");  // one head of k and v, of 6
  check_held(llama, "layers.0.self_attn.q_proj.lora_B.weight", {6, 2}, 1, 2 * 6 * 2);
  check_held(llama, "layers.0.self_attn.k_proj.lora_A.weight", {2, 16}, 4, 0);
  check_held(llama, "layers.0.self_attn.k_proj.lora_B.weight", {6, 2}, 4, 0);
}

TEST_CASE("the deviation of A's elements is that of loralib's and peft's uniform numbers") {
  ModelConfig config = adapted(find_preset("gpt2").config, "mlp-proj");
  config.frozen.clear();
  const Layout layout(config, 1, {.first = 2, .end = 3});
  const Tensor flat(memory(), Category::parameters, DType::fp32, {layout.num_elements()});
  initialize_parameters(stream(), layout, 1, 0, flat);
  for (const Parameter& p : layout.unit(0).parameters) {
    if (!p.name.ends_with("lora_A.weight")) continue;
    double squares = 0;
    for (double value : values_of(flat.view().elements(p.offset, p.shape))) {
      squares += value * value;
    }
    // Of 2 x 3072 normal numbers; the estimate is off by sqrt(2 / 6144) = 1.8 % typically.
    CHECK(squares / (2 * 3072) == Approx(1.0 / (3 * 3072)).epsilon(0.08));
  }
}

TEST_CASE("an adapter costs 2 FLOP for each of its parameters forward, and 4 backward") {
  const ModelConfig with = adapted(kGpt2, "qkv,mlp-proj", 2);
  ModelConfig without = with;
  without.lora.reset();
  without.frozen = {"wte", "wpe", "ln_f"};
  const double adapters = 3 * 2 * ((16 + 48) + (64 + 16));
  const auto block = [](const ModelConfig& config) { return describe(config).operations[2]; };
  CHECK(block(with).forward_flops - block(without).forward_flops == 2 * adapters / 3);
  const double weights = 3 * (11 * 16 + 12 * 16 * 16 + 2 * 16);  // of three blocks, with norms
  CHECK(describe(with).flops_per_token() ==
        describe(without).flops_per_token() - 2 * weights + 6 * adapters);
}

TEST_CASE("the choice is found in a model that trains its adapters alone") {
  const ModelConfig config = adapted(kGpt2, "qkv");
  CHECK(train_choice(config) == kTrainLora);
  CHECK(train_text(config) == "--train lora, rank 2, alpha 6 on attn.c_attn");
  ModelConfig all = config;
  all.frozen = {"wte"};
  CHECK(train_choice(all) == "");
}

}  // namespace
}  // namespace ladder::testing
