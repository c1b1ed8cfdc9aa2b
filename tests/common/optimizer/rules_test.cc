// Update rules: who takes which parameter, what they keep, and AdamW's formula.
#include "common/optimizer/rule.h"

#include <map>

#include "common/optimizer/adamw.h"
#include "common/optimizer/state.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kConfig = {
    .num_layers = 2, .num_heads = 3, .hidden = 15, .vocab_size = 370, .sequence_length = 11};

const OptimizerConfig kAdamW = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1};
const OptimizerConfig kMuon = {.name = "muon"};
constexpr UpdateStep kStep = {.number = 3, .learning_rate = 0.01, .grad_scale = 0.5};

// The four flat buffers. Padding holds numbers too, so that using it would show.
struct Buffers {
  Buffers(const Layout& layout, DType dtype) {
    for (const char* name : {"params", "exp_avg", "exp_avg_sq", "grads"}) {
      tensors.emplace_back(memory(), Category::workspace, dtype, Shape{layout.num_elements()});
      Values values = normal_values(layout.num_elements(), name, 1);
      if (tensors.size() == 3) {
        for (double& value : values) value = std::abs(value);
      }
      set_values(tensors.back(), values);
    }
  }
  // Updates elements [first, first + n).
  void update(const Layout& layout, size_t first, size_t n) const {
    std::vector<UpdateTensors> all;
    for_parameters_in(
        layout, first, first + n, [&](const Parameter& parameter, size_t, size_t from, size_t to) {
          const auto part = [&](size_t i) { return tensors[i].view().rows(from, to - from); };
          all.push_back({&parameter, part(0), part(3), {}, {part(1), part(2)}});
        });
    AdamW(kAdamW).update(stream(), all, kStep);
  }
  std::vector<Values> values() const {
    std::vector<Values> values;
    for (const Tensor& tensor : tensors) values.push_back(values_of(tensor));
    return values;
  }
  std::vector<Tensor> tensors;
};

// Calls body(parameter, index in the flat buffer) for every element that is no padding.
template <class Body>
void for_each_element(const Layout& layout, Body body) {
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      for (size_t i = 0; i < p.shape.num_elements(); ++i) body(p, unit.offset + p.offset + i);
    }
  }
}

TEST_CASE("AdamW as the paper writes it; matrices decay, padding stays") {
  const Layout layout(kConfig, 3);
  const Buffers buffers(layout, DType::fp64);
  const std::vector<Values> before = buffers.values();
  buffers.update(layout, 0, layout.num_elements());
  const std::vector<Values> after = buffers.values();

  std::vector<Values> expected = before;
  size_t num_matrix_elements = 0;
  for_each_element(layout, [&](const Parameter& p, size_t i) {
    const bool is_matrix = p.shape.num_dims() == 2;
    num_matrix_elements += is_matrix;
    const double g = 0.5 * before[3][i];
    const double m = expected[1][i] = 0.9 * before[1][i] + (1 - 0.9) * g;
    const double v = expected[2][i] = 0.95 * before[2][i] + (1 - 0.95) * g * g;
    const double m_hat = m / (1 - std::pow(0.9, 3)), v_hat = v / (1 - std::pow(0.95, 3));
    const double theta = before[0][i];
    expected[0][i] -= 0.01 * (m_hat / (std::sqrt(v_hat) + 1e-3) + (is_matrix ? 0.1 : 0.0) * theta);
  });
  CHECK(num_matrix_elements == 15 * (370 + 11) + 2 * 12 * 15 * 15);
  CHECK(after[3] == before[3]);
  for (size_t kind = 0; kind < 3; ++kind) {
    for (size_t i = 0; i < layout.num_elements(); ++i) {
      // Some ten roundings of 2^-53 on either side of terms of order 1; those that cancel do so
      // against terms of at most 5.
      if (!(std::abs(after[kind][i] - expected[kind][i]) <= 1e-14)) {
        FAIL_CHECK(concat("kind ", kind, " element ", i, ": ", after[kind][i], ", expected ",
                          expected[kind][i]));
      }
    }
  }
  Values padding(layout.num_elements(), 1);
  for_each_element(layout, [&](const Parameter&, size_t i) { padding[i] = 0; });
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] == 1 && after[0][i] != before[0][i]) FAIL_CHECK("padding was updated");
  }
}

TEST_CASE("updates by shards are the whole update, to the bit, and touch nothing else") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const size_t world_size = GENERATE(1, 2, 3, 8);
  const Layout layout(kConfig, world_size);
  const Buffers whole(layout, dtype), parts(layout, dtype);
  whole.update(layout, 0, layout.num_elements());
  std::vector<Values> before = parts.values();
  for (size_t rank = world_size; rank-- > 0;) {
    for (const Unit& unit : layout.units()) {
      const size_t shard = unit.padded_elements / world_size, first = unit.offset + rank * shard;
      parts.update(layout, first, shard);
      std::vector<Values> now = parts.values();
      for (size_t kind = 0; kind < 4; ++kind) {
        const auto [b, n] = std::pair(before[kind].begin(), now[kind].begin());
        const auto at = static_cast<std::ptrdiff_t>(first);
        const auto end = static_cast<std::ptrdiff_t>(first + shard);
        CHECK(std::equal(n, n + at, b));
        CHECK(std::equal(n + end, now[kind].end(), b + end));
      }
      before = now;
    }
  }
  CHECK(parts.values() == whole.values());
}

// Elements of each parameter that add_tensors() gives to some rule, by name.
std::map<std::string, size_t> elements_taken(const OptimizerState& state, const Layout& layout,
                                             size_t num_rules, bool is_sharded, size_t rank) {
  std::map<std::string, size_t> taken;
  for (size_t rule = 0; rule < num_rules; ++rule) {
    for (size_t unit = 0; unit < layout.units().size(); ++unit) {
      const size_t n =
          is_sharded ? shard_elements(layout, unit) : layout.unit(unit).trained_elements;
      const Tensor part(memory(), Category::workspace, DType::fp32, {n});
      std::vector<UpdateTensors> tensors;
      state.add_tensors(rule, unit, {nullptr, part, part, {}}, tensors);
      for (const UpdateTensors& own : tensors) {
        taken[own.parameter->name] += own.param.num_elements();
        CAPTURE(rank);
        for (const TensorView& kept : own.state) CHECK(kept.shape() == own.param.shape());
      }
    }
  }
  return taken;
}

TEST_CASE("each parameter is taken by exactly one rule, on ranks with shards too") {
  for (const OptimizerConfig& config : {kAdamW, kMuon}) {
    CAPTURE(config.name);
    const Rules rules = make_rules(config);
    for (const bool is_sharded : {false, true}) {
      const Layout layout(kConfig, 3);
      std::map<std::string, size_t> taken;
      for (size_t rank = 0; rank < (is_sharded ? 3 : 1); ++rank) {
        const OptimizerState state(memory(), rules, DType::fp32, layout, rank, is_sharded, false);
        for (const auto& [name, elements] :
             elements_taken(state, layout, rules.size(), is_sharded, rank)) {
          taken[name] += elements;
        }
      }
      for (const Unit& unit : layout.units()) {
        for (const Parameter& p : unit.parameters) {
          CAPTURE(p.name);
          CHECK(taken[p.name] == p.shape.num_elements());
          CHECK(rules[rule_of(rules, p.matrix)]->name() ==
                (config.name == "muon" && p.matrix.count > 0 ? "muon" : "adamw"));
        }
      }
    }
  }
}

TEST_CASE("a run keeps what the rule of a parameter keeps, and of what is frozen nothing") {
  ParameterSpec weight, bias, frozen;
  weight.matrix.count = 1, frozen.trainable = false;
  for (const std::string_view kind : {kParam, kGrad, kExpAvg, kExpAvgSq}) {
    CAPTURE(kind);
    CHECK(keeps(kMuon, kind, weight) == (kind != kExpAvgSq));
    CHECK(keeps(kMuon, kind, bias));
    CHECK(keeps(kAdamW, kind, weight));
    CHECK(keeps(kAdamW, kind, frozen) == (kind == kParam));
  }
  CHECK_FALSE(keeps(kAdamW, "feedback", weight));
}

TEST_CASE("state lies as the parameters do, or without what another rule has") {
  const Layout layout(kConfig, 3);
  const auto elements_of = [&](const OptimizerConfig& config, std::string_view kind) {
    const Rules rules = make_rules(config);
    const OptimizerState state(memory(), rules, DType::fp32, layout, 0, false, false);
    return state.buffer(kind).num_elements();
  };
  CHECK(elements_of(kAdamW, kExpAvg) == layout.num_elements());
  CHECK(elements_of(kAdamW, kExpAvgSq) == layout.num_elements());
  CHECK(elements_of(kMuon, kExpAvg) == layout.num_elements());
  const size_t in_matrices = 2 * 12 * 15 * 15;
  CHECK(elements_of(kMuon, kExpAvgSq) == layout.num_parameters() - in_matrices);
}

TEST_CASE("rules that need whole matrices do not update without them") {
  const Rules rules = make_rules(kMuon);
  CHECK(rules[0]->needs_matrices());
  CHECK_THROWS_WITH(rules[0]->update(stream(), {}, kStep), ContainsSubstring("whole matrices"));
  CHECK_FALSE(is_optimizer("lion"));
}

}  // namespace
}  // namespace ladder::testing
