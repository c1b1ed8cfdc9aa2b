// Where parameters lie, and how much memory the model takes.
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kOdd = {
    .num_layers = 3, .num_heads = 3, .hidden = 15, .vocab_size = 37, .sequence_length = 11};

TEST_CASE("the published models have their published numbers of parameters") {
  const auto [name, expected] =
      GENERATE(table<std::string, size_t>({{"gpt2", 124'439'808},
                                           {"gpt2-medium", 354'823'168},
                                           {"gpt2-large", 774'030'080},
                                           {"gpt2-xl", 1'557'611'200},
                                           {"gpt3-175b", 174'604'259'328}}));
  const ModelConfig config = find_preset(name).config;
  CHECK(describe(config).num_parameters() == expected);
  const Layout layout(config, 1);
  CHECK(layout.num_parameters() == expected);
  size_t sum = 0;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) sum += parameter.shape.num_elements();
  }
  CHECK(sum == expected);
  // 6 for each parameter but for positions, and 12 L C T for attention: 124M parameters, 12 layers
  // of 768, T = 1024.
  if (name == "gpt2") {
    CHECK(describe(config).flops_per_token() ==
          6.0 * (124'439'808 - 1024 * 768) + 12.0 * 12 * 768 * 1024);
  }
}

TEST_CASE("an unknown preset is named, with those that exist") {
  CHECK_THROWS_WITH(
      find_preset("gpt3"),
      ContainsSubstring("--model gpt3: no such preset; there are nano, tiny, gpt2, ") &&
          EndsWith(", llama-3-70b, llama-3-405b"));
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
      const TensorView found = view[parameter.index];
      CHECK(found.shape() == parameter.shape);
      CHECK(found.as<double>()[0] == static_cast<double>(layout.unit(u).offset + parameter.offset));
    }
  }
}

// Bytes that an object asks an arena for, in a category of its own.
template <class Object>
size_t bytes_of(Category category, const Layout& layout, DType dtype, size_t batch, size_t tokens) {
  Memory arena(DeviceType::cpu, "device", 0, no_memory());
  const Object object(arena, layout, dtype, batch, tokens);
  CHECK(arena.current().total() == arena.current()[category]);
  return arena.current()[category];
}

TEST_CASE("activations and workspace take what the READMEs' formulas say") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16);
  const auto [batch, tokens] =
      GENERATE(table<size_t, size_t>({{1, 1}, {3, 7}, {1, 11}, {23, 11}, {24, 11}, {60, 11}}));
  const ModelConfig config =
      GENERATE(ModelConfig(kOdd), ModelConfig{1, 1, 1, 1, 11}, ModelConfig{5, 2, 64, 300, 11});
  CAPTURE(dtype, batch, tokens, config.hidden);
  const size_t n = GENERATE(size_t{1}, size_t{2});
  if (config.num_heads % n != 0) return;
  // A whole model, and its two stages: the first has a block, the second the others.
  const ModelPartition part =
      GENERATE(ModelPartition{}, ModelPartition{.end = 3}, ModelPartition{.first = 3});
  const Layout layout(
      config, 1, {.first = part.first, .end = part.end, .tensor_rank = n - 1, .tensor_size = n});
  const size_t r = batch * tokens, c = config.hidden, nh = config.num_heads / n;
  const size_t l = part.first == 3 ? config.num_layers - 1 : part.end == 3 ? 1 : config.num_layers;
  const size_t last = part.end == 3 ? 0 : 1;
  if (l == 0 && last == 0) return;
  const size_t x = size_of(dtype), a = size_of(accumulation_dtype(dtype));
  CHECK(bytes_of<Activations>(Category::activations, layout, dtype, batch, tokens) ==
        r * (l * ((4 * c + 12 * c / n) * x + (nh + 4) * a) + c * x + last * (c * x + 2 * a)));
  // What ranks sum is in numbers of a: R C of x, rounded up to a whole number of a.
  const size_t k = std::min<size_t>(r, 256), v = (config.vocab_size + n - 1) / n;
  const size_t slice = n == 2 ? config.vocab_size - v : v;
  const size_t narrow = (r * c * x + a - 1) / a * a;
  const size_t logits = k * slice * (a + (x == a ? 0 : x));
  CHECK(bytes_of<ModelWorkspace>(Category::workspace, layout, dtype, batch, tokens) ==
        narrow + r * (c * x + 4 * c / n * x + nh * a) + last * ((r + 3 * k) * a + logits));
}

TEST_CASE("the formula for activations, written out") {
  // Two layers of hidden 3, one head, six tokens: 6 (3 * (16 * 2 + 2) + 2 * (1 + 4) + 2).
  const Layout layout({2, 1, 3, 10, 6}, 1);
  const auto activations = [](const Layout& of, DType dtype = DType::fp64) {
    return bytes_of<Activations>(Category::activations, of, dtype, 1, 6) /
           (dtype == DType::fp64 ? 8 : 1);
  };
  const auto workspace = [](const Layout& of, DType dtype = DType::fp64) {
    return bytes_of<ModelWorkspace>(Category::workspace, of, dtype, 1, 6) /
           (dtype == DType::fp64 ? 8 : 1);
  };
  CHECK(activations(layout) == 6 * (102 + 10 + 2));
  // And of the workspace: 6 (6 * 3 + 1 + 1) and six rows of logits.
  CHECK(workspace(layout) == 6 * 20 + 6 * 13);
  // Half of the heads, q, k, v, attention and inner layer: hidden 4, 2 heads, one block.
  const Layout half({1, 2, 4, 10, 6}, 1, {.tensor_rank = 1, .tensor_size = 2});
  CHECK(activations(half) == 6 * ((4 + 6) * 4 + 1 + 4 + 4 + 4 + 2));
  CHECK(workspace(half) == 6 * (4 * 4 + 1) + 6 + 6 * (5 + 3));
  // A stage of one block after another: no final norm, no logits.
  const Layout stage({2, 2, 4, 10, 6}, 1, {.first = 3, .end = 4});
  CHECK(activations(stage) == 6 * (16 * 4 + 2 + 4 + 4));
  CHECK(workspace(stage) == 6 * (6 * 4 + 2));
  // In bf16 two bytes for what the hidden size counts, four for statistics, logits too; besides
  // the gradients of logits in two.
  CHECK(activations(layout, DType::bf16) == 6 * (102 * 2 + (10 + 2) * 4));
  CHECK(workspace(layout, DType::bf16) == 6 * (18 * 2 + 2 * 4) + 6 * 13 * 4 + 6 * 10 * 2);
}

TEST_CASE("a part holds the units that its operations use") {
  const auto names = [](const Layout& layout) {
    std::string text;
    for (const Unit& unit : layout.units()) text += concat(text.empty() ? "" : " ", unit.name);
    return text;
  };
  // Operations: wte, wpe, h.0, h.1, h.2, ln_f, classifier.
  const Layout first(kOdd, 1, {.end = 3}), middle(kOdd, 1, {.first = 3, .end = 4}),
      last(kOdd, 1, {.first = 4}), whole(kOdd, 1);
  CHECK(names(first) == "wte wpe h.0");
  CHECK(names(middle) == "h.1");
  CHECK(names(last) == "wte h.2 ln_f");
  CHECK(names(Layout(kOdd, 1, {.end = 1})) == "wte");
  // The token embedding is the first stage's; the last stage has a copy, which nobody counts.
  CHECK(first.shared_units() == std::vector<size_t>{0});
  CHECK(last.shared_units() == std::vector<size_t>{0});
  CHECK(middle.shared_units().empty());
  CHECK(whole.shared_units().empty());
  CHECK((first.unit(0).is_shared && !first.unit(0).is_copy));
  CHECK((last.unit(0).is_shared && last.unit(0).is_copy));
  CHECK(first.unit(0).parameters[0].counted);
  CHECK(!last.unit(0).parameters[0].counted);
  CHECK(last.unit(1).parameters[0].counted);
  // Units and blocks of a part are numbered from 0.
  CHECK(last.operations().front().unit == 1);
  CHECK(last.operations().front().index == 0);
  CHECK(last.operations().back().unit == 0);
  CHECK_THROWS_AS(Layout(kOdd, 1, {.first = 7}), Error);
}

TEST_CASE("a part of several chunks holds each unit once") {
  const auto names = [](const Layout& layout) {
    std::string text;
    for (const Unit& unit : layout.units()) text += concat(text.empty() ? "" : " ", unit.name);
    return text;
  };
  const Layout ends(kOdd, 1, {.first = 0, .end = 2, .more_chunks = {{4, 7}}});
  CHECK(names(ends) == "wte wpe h.2 ln_f");
  CHECK(ends.operations().size() == 5);
  CHECK(ends.operations().back().unit == 0);
  CHECK(ends.shared_units().empty());  // both uses of wte are here
  const Layout others(kOdd, 1, {.first = 0, .end = 1, .more_chunks = {{2, 3}, {4, 5}}});
  CHECK(names(others) == "wte h.0 h.2");
  CHECK(others.count(OperationKind::block) == 2);
  CHECK(others.shared_units() == std::vector<size_t>{0});
}

TEST_CASE("of tensors that tensor parallelism splits a rank holds its slice") {
  const ModelConfig config = {1, 2, 4, 5, 3};
  const auto shapes = [&](size_t rank) {
    std::string text;
    const Layout layout(config, 1, {.tensor_rank = rank, .tensor_size = 2});
    for (const Unit& unit : layout.units()) {
      for (const Parameter& p : unit.parameters) {
        if (p.split) text += concat(p.name, to_string(p.shape), p.ranges.first, " ");
      }
    }
    return text;
  };
  // Rows of the vocabulary: 3 and 2. Of q, k and v each rank has 2 of 4 columns.
  CHECK(shapes(0) ==
        "wte.weight(3, 4)0 h.0.attn.c_attn.weight(4, 6)0 h.0.attn.c_attn.bias(6)0 "
        "h.0.attn.c_proj.weight(2, 4)0 h.0.mlp.c_fc.weight(4, 8)0 "
        "h.0.mlp.c_fc.bias(8)0 h.0.mlp.c_proj.weight(8, 4)0 ");
  CHECK(shapes(1) ==
        "wte.weight(2, 4)12 h.0.attn.c_attn.weight(4, 6)2 h.0.attn.c_attn.bias(6)2 "
        "h.0.attn.c_proj.weight(2, 4)8 h.0.mlp.c_fc.weight(4, 8)8 "
        "h.0.mlp.c_fc.bias(8)8 h.0.mlp.c_proj.weight(8, 4)32 ");
  // What is not split is counted once, by the first rank; both have room for the larger slice.
  const Layout zero(config, 1, {.tensor_rank = 0, .tensor_size = 2});
  const Layout one(config, 1, {.tensor_rank = 1, .tensor_size = 2});
  CHECK(zero.unit(1).parameters[0].counted);
  CHECK(!one.unit(1).parameters[0].counted);
  CHECK(one.unit(0).parameters[0].counted);
  CHECK(one.unit(0).parameters[0].first_row() == 3);
  CHECK(zero.num_elements() == one.num_elements());
}

}  // namespace
}  // namespace ladder::testing
