// What --train freezes of both families, and what it refuses.
#include "common/model/train_choice.h"

#include "common/model/lora.h"

#include "common/model/description.h"
#include "tests/catch.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

using Names = std::vector<std::string>;

const ModelConfig kGpt2 = {3, 2, 8, 11, 5};

// The model trained so.
ModelDescription trained(ModelConfig model, const std::string& choice) {
  model.frozen = frozen_names(model, choice);
  return describe(model);
}

// The names of the parameters that are trained.
Names names_of(const ModelDescription& model) {
  Names names;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.trainable) names.push_back(parameter.name);
    }
  }
  return names;
}

TEST_CASE("--train last-K trains the last blocks and the final norm, and nothing else") {
  const Names block = {"ln_1.weight",      "ln_1.bias",          "attn.c_attn.weight",
                       "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
                       "ln_2.weight",      "ln_2.bias",          "mlp.c_fc.weight",
                       "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
  for (size_t count = 1; count <= 3; ++count) {
    Names expected;
    for (size_t i = 3 - count; i < 3; ++i) {
      for (const std::string& name : block) expected.push_back(concat("h.", i, ".", name));
    }
    expected.insert(expected.end(), {"ln_f.weight", "ln_f.bias"});
    CHECK(names_of(trained(kGpt2, concat("last-", count))) == expected);
  }
  CHECK(frozen_names(kGpt2, "last-2") == Names{"wte", "wpe", "h.0"});
  ModelConfig llama = llama_like(kGpt2);
  CHECK(frozen_names(llama, "last-2") == Names{"embed_tokens", "layers.0"});
  llama.untied = true;
  CHECK(frozen_names(llama, "last-3") == Names{"embed_tokens", "lm_head"});
}

TEST_CASE("--train bias trains the biases of a GPT-2's linear layers and norms") {
  Names expected;
  for (const char* block : {"h.0.", "h.1.", "h.2."}) {
    for (const char* name :
         {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"}) {
      expected.push_back(concat(block, name, ".bias"));
    }
  }
  expected.push_back("ln_f.bias");
  const ModelDescription model = trained(kGpt2, "bias");
  CHECK(names_of(model) == expected);
  // A block has C in each of its norms, 3 C, C, F = 4 C and C in its layers.
  CHECK(model.num_trained_parameters() == 3 * 11 * 8 + 8);
  CHECK(model.num_parameters() == describe(kGpt2).num_parameters());
}

TEST_CASE("--train all freezes nothing, whatever was frozen") {
  ModelConfig model = kGpt2;
  model.frozen = {"wte"};
  CHECK(frozen_names(model, "all").empty());
  CHECK(frozen_names(model, "last-2") == Names{"wte", "wpe", "h.0"});
  const ModelDescription all = describe(kGpt2);
  CHECK(all.num_trained_parameters() == all.num_parameters());
}

TEST_CASE("the choice is found in what is frozen") {
  for (ModelConfig model : {ModelConfig(kGpt2), llama_like(kGpt2)}) {
    for (const bool untied : {false, true}) {
      model.untied = untied;
      for (const std::string choice : {"all", "bias", "last-1", "last-2", "last-3"}) {
        if (choice == "bias" && !model.is_gpt2()) continue;
        model.frozen = frozen_names(model, choice);
        CHECK(train_choice(model) == choice);
        CHECK(train_text(model) == "--train " + choice);
      }
      model.frozen = {"norm", "x\n"};
      CHECK(train_choice(model) == "");
      CHECK(train_text(model) == "frozen norm, x\\n");
    }
  }
}

TEST_CASE("--train refuses what no model has, in one line") {
  const auto fault = [](const ModelConfig& model, const std::string& choice) -> std::string {
    try {
      frozen_names(model, choice);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string choice : {"last-0", "last-4", "last-", "last-x", "last-+1", "last-01",
                                   "last-1 ", "last--1", "last-99999999999999999999"}) {
    CHECK(fault(kGpt2, choice) ==
          concat("--train ", choice, ": the model has 3 blocks; take last-1 to last-3"));
  }
  CHECK(fault({1, 2, 8, 11, 5}, "last-2") == "--train last-2: the model has 1 block; take last-1");
  for (const std::string choice : {"", "heads", "last", "ALL", "all,bias", "Lora"}) {
    CHECK(fault(kGpt2, choice) ==
          concat("--train ", choice,
                 ": expected all, bias, head, lora or last-K, the last K blocks"));
  }
  CHECK(fault(kGpt2, "head") == "--train head: the model has no head; --labels gives it one");
  CHECK(fault(kGpt2, "a\nb") ==
        "--train a\\nb: expected all, bias, head, lora or last-K, the last K blocks");
  // Also one that has biases of q, k and v.
  CHECK(fault(llama_like(kGpt2), "bias") ==
        "--train bias: of the two families only GPT-2's has biases in all linear layers and norms; "
        "take last-K");
  CHECK(fault(llama_like(kGpt2), "last-3") == "");
}

TEST_CASE("every choice trains a head if there is one, and else the same as without") {
  for (const bool is_llama : {false, true}) {
    for (const std::string choice : {"all", "bias", "head", "lora", "last-1", "last-2", "last-3"}) {
      CAPTURE(is_llama, choice);
      if (choice == "bias" && is_llama) continue;
      ModelConfig model = is_llama ? llama_like(kGpt2) : kGpt2;
      if (choice == "lora") {
        model.lora = {.rank = 2, .alpha = 4, .targets = lora_targets(model, "qkv")};
      }
      const Names without = choice == "head" ? Names() : names_of(trained(model, choice));
      model.labels = {"red", "blue"};
      Names with;
      size_t in_head = 0;
      const ModelDescription headed = trained(model, choice);
      for (const UnitSpec& unit : headed.units) {
        for (const ParameterSpec& parameter : unit.parameters) {
          if (!parameter.trainable) continue;
          if (unit.name != kHeadUnit) with.push_back(parameter.name);
          in_head += unit.name == kHeadUnit ? 1 : 0;
        }
      }
      CHECK(in_head > 0);
      CHECK(with == without);
    }
  }
}

TEST_CASE("of blocks with experts, routers and experts are frozen like the block") {
  ModelConfig model = kGpt2;
  model.experts = {.num_experts = 3, .every = 1};
  model.lora = {.rank = 2, .alpha = 4, .targets = {"mlp.c_fc"}};
  const std::string last = concat("h.", model.num_layers - 1, ".");
  for (const std::string choice : {"bias", "last-1", "lora"}) {
    CAPTURE(choice);
    if (choice != "lora") model.lora.reset();
    if (choice == "lora") model.lora = {.rank = 2, .alpha = 4, .targets = {"mlp.c_fc"}};
    model.frozen = frozen_names(model, choice);
    CHECK(train_choice(model) == choice);
    for (const UnitSpec& unit : describe(model).units) {
      for (const ParameterSpec& p : unit.parameters) {
        CAPTURE(p.name);
        CHECK(p.trainable == (choice == "bias" ? p.name.ends_with(".bias")
                              : choice == "lora"
                                  ? is_adapter(p.name)
                                  : p.name.starts_with(last) || p.name.starts_with("ln_f")));
      }
    }
  }
}

TEST_CASE("each expert has adapters of its own, under its name and in its numbers") {
  ModelConfig model = kGpt2;
  model.experts = {.num_experts = 3, .every = 1};
  model.lora = {.rank = 2, .alpha = 4, .targets = {"mlp.c_fc", "mlp.c_proj"}};
  CHECK(adapts_experts(model));
  std::vector<std::string> names;
  const ModelDescription described = describe(model);
  for (const UnitSpec& unit : described.units) {
    for (const ParameterSpec& p : unit.parameters) {
      if (!is_adapter(p.name) || !unit.name.starts_with("h.1.")) continue;
      CHECK(unit.name == "h.1.experts");
      names.push_back(p.name.substr(unit.name.size()));
    }
  }
  std::vector<std::string> expected;
  for (const char* expert : {".0", ".1", ".2"}) {
    for (const char* layer : {".c_fc", ".c_proj"}) {
      for (const char* factor : {".lora_A.weight", ".lora_B.weight"}) {
        expected.push_back(concat(expert, layer, factor));
      }
    }
  }
  CHECK(names == expected);
  model.lora->targets = {"attn.c_attn"};
  CHECK_FALSE(adapts_experts(model));
}

}  // namespace
}  // namespace ladder::testing
