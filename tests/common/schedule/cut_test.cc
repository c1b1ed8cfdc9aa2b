// Which operations the stages run.
#include "common/schedule/cut.h"

#include "common/model/train_choice.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using Cut = std::vector<size_t>;

const ModelDescription kTiny = describe(find_preset("tiny").config);  // 4 layers
const ModelDescription kGpt2 = describe(find_preset("gpt2").config);  // 12

// The first operation of each part. Parts follow one another to the end.
Cut firsts(const ModelDescription& model, const std::vector<ModelPartition>& parts) {
  Cut cut;
  size_t end = 0;
  for (const ModelPartition& part : parts) {
    CHECK(part.first == end);
    CHECK(part.end > part.first);
    cut.push_back(part.first);
    end = part.end;
  }
  CHECK(end == model.operations.size());
  return cut;
}
Cut even(const ModelDescription& model, size_t num_stages) {
  return firsts(model, cut_evenly(model, num_stages));
}
Cut by_layers(const ModelDescription& model, const Cut& layers, size_t num_stages) {
  return firsts(model, cut_at_layers(model, layers, num_stages));
}

TEST_CASE("the operations of parts add up to the model's, but for what are no matrix products") {
  for (const ModelPreset& preset : presets()) {
    CAPTURE(preset.name);
    const ModelConfig& m = preset.config;
    const ModelDescription model = describe(m);
    // flops_per_token counts 6 for each parameter but positions; biases and norms multiply no
    // matrix.
    size_t others = 0;
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        if (parameter.shape.num_dims() == 1) others += parameter.shape.num_elements();
      }
    }
    // Exact: whole numbers below 2^53.
    double sum = 0;
    for (const ModelPartition& part : cut_evenly(model, 3)) sum += part_flops(model, part);
    CHECK(sum == model.flops_per_token() - 6.0 * static_cast<double>(others));
    CHECK(part_flops(model, {}) == sum);
    const size_t first_block = m.positions == Positions::learned ? 2 : 1;
    CHECK(part_flops(model, {.first = 0, .end = first_block}) == 0);
  }
}

TEST_CASE("of what is frozen stages have the products that backward still runs") {
  for (const char* choice : {"last-1", "last-3", "bias", "lora"}) {
    CAPTURE(choice);
    ModelConfig config = kGpt2.config;
    if (choice == std::string("lora")) {
      config.lora = {.rank = 8, .alpha = 16, .targets = {"attn.c_attn"}};
    }
    config.frozen = frozen_names(config, choice);
    const ModelDescription model = describe(config);
    // Biases and norms multiply no matrix: they count 2, 2 more where backward passes, 2 if
    // trained.
    double others = 0;
    for (size_t i = 0; i < model.operations.size(); ++i) {
      for (const ParameterSpec& p : model.units[model.operations[i].unit].parameters) {
        if (p.shape.num_dims() > 1) continue;
        others += (2.0 + (i >= model.first_trained() ? 2 : 0) + (p.trainable ? 2 : 0)) *
                  static_cast<double>(p.shape.num_elements());
      }
    }
    CHECK(part_flops(model, {}) == model.flops_per_token() - others);
  }
  // Of twelve blocks the last has all products, and eleven have a third of them.
  ModelConfig last = kGpt2.config;
  last.frozen = frozen_names(last, "last-1");
  const Cut before = even(kGpt2, 2), after = even(describe(last), 2);
  CHECK(after[1] > before[1]);
}

TEST_CASE("the cheapest cut knows what the classifier costs") {
  CHECK(even(kGpt2, 1) == Cut{0});
  // 855 MFLOP a token, 232 of them in the classifier, which is alone: 4, 4, 4, 0 layers.
  CHECK(even(kGpt2, 4) == Cut{0, 6, 10, 14});
  // One stage for each operation: one with only the token embedding, one with only the positions.
  CHECK(even(kTiny, 7) == Cut{0, 1, 2, 3, 4, 5, 6});
  // The embeddings stay together while they can.
  CHECK(even(kTiny, 6) == Cut{0, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(cut_evenly(kTiny, 8), UserError);
}

TEST_CASE("--stage-layers counts blocks; embeddings are first, the final norm is last") {
  CHECK(by_layers(kGpt2, {5, 3, 3, 1}, 4) == Cut{0, 7, 10, 13});
  CHECK(by_layers(kGpt2, {12}, 1) == Cut{0});
  CHECK(by_layers(kGpt2, {0, 12}, 2) == Cut{0, 2});
  CHECK(by_layers(kGpt2, {12, 0}, 2) == Cut{0, 14});
  CHECK(by_layers(kTiny, {0, 1, 1, 1, 1, 0}, 6) == Cut{0, 2, 3, 4, 5, 6});
}

TEST_CASE("--stage-layers that cannot be names the numbers and what can") {
  const auto [layers, stages, found] = GENERATE(table<Cut, size_t, std::string>({
      {{5, 3, 3},
       3,
       "5,3,3: 11 layers on 3 stages; the model has 12 layers, the pipeline 3 stages"},
      {{5, 3, 4},
       4,
       "5,3,4: 12 layers on 3 stages; the model has 12 layers, the pipeline 4 stages"},
      {{5, 3, 3, 1}, 2, "12 layers on 4 stages; the model has 12 layers, the pipeline 2 stages"},
      {{6, 0, 6}, 3, "6,0,6: 12 layers on 3 stages"},
      {{}, 2, ": 0 layers on 0 stages"},
      {{size_t(-1), 13}, 2, "1.84467e+19 layers on 2 stages"},
  }));
  CAPTURE(layers, stages);
  CHECK_THROWS_AS(cut_at_layers(kGpt2, layers, stages), UserError);
  CHECK_THROWS_WITH(
      cut_at_layers(kGpt2, layers, stages),
      ContainsSubstring(found) && ContainsSubstring("only the first and the last may have none"));
  CHECK_THROWS_WITH(cut_at_layers(kGpt2, {5, 3, 3}, 4),
                    ContainsSubstring("example --stage-layers 4,4,4,0"));
}

// The numbers after "for example --stage-layers ".
Cut example_in(const std::string& message) {
  const std::string before = "example --stage-layers ";
  std::istringstream text(message.substr(message.find(before) + before.size()));
  Cut numbers;
  for (std::string number; std::getline(text, number, ',');) numbers.push_back(std::stoul(number));
  return numbers;
}

TEST_CASE("the example works for every model and number of stages") {
  for (const ModelPreset& preset : presets()) {
    for (size_t p = 1; p <= preset.config.num_layers + 2; ++p) {
      CAPTURE(preset.name, p);
      try {
        cut_at_layers(describe(preset.config), {}, p);
        FAIL("no error");
      } catch (const UserError& error) {
        CAPTURE(error.what());
        REQUIRE_NOTHROW(cut_at_layers(describe(preset.config), example_in(error.what()), p));
      }
    }
  }
}

TEST_CASE("more stages than layers and two are too many for --stage-layers") {
  CHECK_THROWS_AS(cut_at_layers(kTiny, {0, 0, 1, 1, 1, 1, 0}, 7), UserError);
  CHECK_THROWS_WITH(cut_at_layers(kTiny, {0, 0, 1, 1, 1, 1, 0}, 7),
                    ContainsSubstring("at most 6 stages for 4 layers, not 7"));
}

TEST_CASE("messages count one layer and one stage as one") {
  const ModelDescription one_layer = describe(
      {.num_layers = 1, .num_heads = 2, .hidden = 32, .vocab_size = 256, .sequence_length = 32});
  CHECK_THROWS_WITH(
      cut_at_layers(one_layer, {2}, 1),
      ContainsSubstring(": 2 layers on 1 stage; the model has 1 layer, the pipeline 1 stage,"));
  CHECK_THROWS_WITH(cut_at_layers(one_layer, {1, 0}, 1),
                    ContainsSubstring(": 1 layer on 2 stages;"));
  CHECK_THROWS_WITH(cut_at_layers(one_layer, {0, 0, 1, 0}, 4),
                    ContainsSubstring("at most 3 stages for 1 layer, not 4"));
}

}  // namespace
}  // namespace ladder
