// Where parameters lie, and how much memory the model takes.
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr Gpt2Config kOdd = {
    .num_layers = 3, .num_heads = 3, .hidden = 15, .vocab_size = 37, .sequence_length = 11};

TEST_CASE("the published models have their published numbers of parameters") {
  const auto [name, expected] = GENERATE(table<std::string, size_t>({{"gpt2", 124'439'808},
                                                                     {"gpt2-medium", 354'823'168},
                                                                     {"gpt2-large", 774'030'080},
                                                                     {"gpt2-xl", 1'557'611'200}}));
  const Gpt2Config config = find_preset(name).config;
  CHECK(describe(config).num_parameters() == expected);
  const Layout layout(config, 1);
  CHECK(layout.num_parameters() == expected);
  size_t sum = 0;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) sum += parameter.shape.num_elements();
  }
  CHECK(sum == expected);
  // 6 for each parameter and 12 L C T for attention: 124M parameters, 12 layers of 768, T = 1024.
  if (name == "gpt2") CHECK(describe(config).flops_per_token() == 6.0 * 124'439'808 + 12.0 * 12 * 768 * 1024);
}

TEST_CASE("an unknown preset is named, with those that exist") {
  CHECK_THROWS_WITH(find_preset("gpt3"),
                    "--model gpt3: no such preset; there are nano, tiny, gpt2, gpt2-medium, "
                    "gpt2-large, gpt2-xl");
  CHECK_THROWS_AS(find_preset(""), UserError);
  CHECK_THROWS_WITH(check_config({2, 3, 32, 256, 32}), "--heads 3 does not divide --hidden 32");
}

TEST_CASE("parameters have their published names and shapes, in forward order") {
  const Layout layout(kOdd, 1);
  REQUIRE(layout.units().size() == 2 + 3 + 1);
  std::vector<std::string> expected = {"wte: wte.weight(37, 15)", "wpe: wpe.weight(11, 15)"};
  for (const std::string h : {"h.0", "h.1", "h.2"}) {
    for (const std::string tensor :
         {"ln_1.weight(15)", "ln_1.bias(15)", "attn.c_attn.weight(15, 45)", "attn.c_attn.bias(45)",
          "attn.c_proj.weight(15, 15)", "attn.c_proj.bias(15)", "ln_2.weight(15)", "ln_2.bias(15)",
          "mlp.c_fc.weight(15, 60)", "mlp.c_fc.bias(60)", "mlp.c_proj.weight(60, 15)",
          "mlp.c_proj.bias(15)"}) {
      expected.push_back(concat(h, ": ", h, ".", tensor));
    }
  }
  expected.insert(expected.end(), {"ln_f: ln_f.weight(15)", "ln_f: ln_f.bias(15)"});
  std::vector<std::string> got;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      got.push_back(concat(unit.name, ": ", p.name, to_string(p.shape)));
    }
  }
  CHECK(got == expected);
  CHECK(layout.unit(layout.token_embedding()).name == "wte");
  CHECK(layout.unit(layout.position_embedding()).name == "wpe");
  CHECK(layout.unit(layout.block(2)).name == "h.2");
  CHECK(layout.unit(layout.final_norm()).name == "ln_f");
}

TEST_CASE("matrices decay and begin random; vectors do not, and scales begin at 1") {
  const Layout layout(kOdd, 1);
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      INFO(p.name);
      const bool is_norm = p.name.find("ln_") != std::string::npos;
      const bool is_matrix = p.name.ends_with(".weight") && !is_norm;
      const bool is_residual = is_matrix && p.name.find("c_proj") != std::string::npos;
      CHECK(p.decays() == is_matrix);
      CHECK(p.initial_value == (is_norm && p.name.ends_with(".weight") ? 1 : 0));
      // GPT-2: 0.02, and 0.02 / sqrt(2 L) where a layer adds to the residual stream; L = 3.
      const double deviation = is_residual ? 0.02 / std::sqrt(6.0) : 0.02;
      CHECK(p.initial_deviation == (is_matrix ? Approx(deviation).epsilon(1e-15) : Approx(0)));
    }
  }
}

TEST_CASE("units follow one another, padded to equal shards of whole cache lines") {
  const size_t world_size = GENERATE(1, 2, 3, 8, 64);
  CAPTURE(world_size);
  const Layout layout(kOdd, world_size);
  CHECK(layout.world_size() == world_size);
  size_t unit_offset = 0;
  for (const Unit& unit : layout.units()) {
    CHECK(unit.offset == unit_offset);
    size_t offset = 0;
    for (const Parameter& parameter : unit.parameters) {
      CHECK(parameter.offset == offset);
      offset += parameter.shape.num_elements();
    }
    CHECK(unit.num_elements == offset);
    CHECK(unit.padded_elements % (16 * world_size) == 0);
    CHECK(unit.padded_elements >= offset);
    CHECK(unit.padded_elements < offset + 16 * world_size);
    unit_offset += unit.padded_elements;
  }
  CHECK(layout.num_elements() == unit_offset);
  CHECK(layout.num_parameters() == describe(kOdd).num_parameters());
}

TEST_CASE("unit_of finds each parameter in the flat buffer") {
  const Layout layout(kOdd, 3);
  Values flat(layout.num_elements());
  for (size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<double>(i);
  for (size_t u = 0; u < layout.units().size(); ++u) {
    const UnitView view = unit_of(layout, u, view_of(flat));
    for (size_t i = 0; i < layout.unit(u).parameters.size(); ++i) {
      const Parameter& parameter = layout.unit(u).parameters[i];
      CHECK(view[i].shape() == parameter.shape);
      CHECK(view[i].as<double>()[0] ==
            static_cast<double>(layout.unit(u).offset + parameter.offset));
    }
  }
}

TEST_CASE("the formulas for activations and workspace give what is allocated") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16);
  const auto [batch, tokens] =
      GENERATE(table<size_t, size_t>({{1, 1}, {3, 7}, {1, 11}, {23, 11}, {24, 11}, {60, 11}}));
  const Gpt2Config config =
      GENERATE(Gpt2Config(kOdd), Gpt2Config{1, 1, 1, 1, 11}, Gpt2Config{5, 2, 64, 300, 11});
  CAPTURE(dtype, batch, tokens, config.hidden);
  const size_t tensor_size = GENERATE(size_t{1}, size_t{2});
  Memory arena(DeviceType::cpu, "device", 0);
  if (config.num_heads % tensor_size != 0) return;
  // A whole model, and its two stages.
  const ModelPart part =
      GENERATE(ModelPart{}, ModelPart{.end_unit = 3}, ModelPart{.first_unit = 3});
  const Layout layout(config, 1, {part.first_unit, part.end_unit, tensor_size - 1, tensor_size});
  {
    const Activations activations(arena, layout, dtype, batch, tokens);
    const size_t bytes = Activations::num_bytes(layout, dtype, batch, tokens);
    CHECK(arena.current()[Category::activations] == bytes);
    CHECK(arena.current().total() == bytes);
  }
  CHECK(arena.current().total() == 0);
  const ModelWorkspace workspace(arena, layout, dtype, batch, tokens);
  const size_t bytes = ModelWorkspace::num_bytes(layout, dtype, batch, tokens);
  CHECK(arena.current()[Category::workspace] == bytes);
  CHECK(arena.current().total() == bytes);
}

TEST_CASE("the formula for activations, written out") {
  // Two layers of hidden 3, one head, six tokens: 6 (3 * (16 * 2 + 2) + 2 * (1 + 4) + 2).
  const Layout layout({2, 1, 3, 10, 6}, 1);
  const auto activations = [](const Layout& of) {
    return Activations::num_bytes(of, DType::fp64, 1, 6) / 8;
  };
  const auto workspace = [](const Layout& of) {
    return ModelWorkspace::num_bytes(of, DType::fp64, 1, 6) / 8;
  };
  CHECK(activations(layout) == 6 * (102 + 10 + 2));
  // And of the workspace: 6 (6 * 3 + 1 + 1) and six rows of logits.
  CHECK(workspace(layout) == 6 * 20 + 6 * 13);
  // Half of the heads, q, k, v, attention and inner layer: hidden 4, 2 heads, one block.
  const Layout half({1, 2, 4, 10, 6}, 1, {.tensor_rank = 1, .tensor_size = 2});
  CHECK(activations(half) == 6 * ((4 + 6) * 4 + 1 + 4 + 4 + 4 + 2));
  CHECK(workspace(half) == 6 * (4 * 4 + 1) + 6 + 6 * (5 + 3));
  // A stage of one block behind another: no final norm, no logits.
  const Layout stage({2, 2, 4, 10, 6}, 1, {.first_unit = 3, .end_unit = 4});
  CHECK(activations(stage) == 6 * (16 * 4 + 2 + 4 + 4));
  CHECK(workspace(stage) == 6 * (6 * 4 + 2));
  // In bf16 two bytes for what the hidden size counts, four for row numbers, logits too; besides
  // the gradients of logits in two.
  CHECK(Activations::num_bytes(layout, DType::bf16, 1, 6) == 6 * (102 * 2 + (10 + 2) * 4));
  CHECK(ModelWorkspace::num_bytes(layout, DType::bf16, 1, 6) ==
        6 * (18 * 2 + 2 * 4) + 6 * 13 * 4 + 6 * 10 * 2);
}

}  // namespace
}  // namespace ladder::testing
