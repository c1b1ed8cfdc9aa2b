// The order in which a micro-batch uses the units, for GPT-2, its stages, and models that it is
// not.
#include "common/model/walk.h"

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder::testing {
namespace {

constexpr ModelConfig kConfig = {
    .num_layers = 2, .num_heads = 1, .hidden = 4, .vocab_size = 5, .sequence_length = 3};

// "h.1 backward rg!": reads weights, writes the gradient, which is then final.
std::string text_of(const Layout& layout, const std::vector<Use>& walk) {
  std::string text;
  for (const Use& use : walk) {
    text += concat(text.empty() ? "" : ", ", layout.unit(use.unit).name, " ", name_of(use.pass),
                   " ", use.reads_weights ? "r" : "", use.writes_gradient ? "g" : "",
                   use.gradient_is_final ? "!" : "");
  }
  return text;
}

TEST_CASE("training walks forward, through the classifier, and back") {
  const Layout layout(kConfig, 1);
  CHECK(text_of(layout, training_walk(layout)) ==
        "wte forward r, wpe forward r, h.0 forward r, h.1 forward r, ln_f forward r, "
        "wte classifier rg, "
        "ln_f backward rg!, h.1 backward rg!, h.0 backward rg!, wpe backward g!, "
        "wte backward g!");
  CHECK(text_of(layout, evaluation_walk(layout)) ==
        "wte forward r, wpe forward r, h.0 forward r, h.1 forward r, ln_f forward r, "
        "wte classifier r");
}

TEST_CASE("stages walk through their own operations") {
  const Layout first(kConfig, 1, {.end = 3}), last(kConfig, 1, {.first = 3});
  CHECK(text_of(first, training_walk(first)) ==
        "wte forward r, wpe forward r, h.0 forward r, "
        "h.0 backward rg!, wpe backward g!, wte backward g!");
  // Nothing after the classifier adds to its copy of the token embedding's gradient.
  CHECK(text_of(last, training_walk(last)) ==
        "h.1 forward r, ln_f forward r, wte classifier rg, "
        "wte backward !, ln_f backward rg!, h.1 backward rg!");
}

TEST_CASE("in two halves, backward first goes all the way to the input") {
  const Layout whole(kConfig, 1), last(kConfig, 1, {.first = 3});
  CHECK(text_of(whole, in_two_halves(whole, training_walk(whole))) ==
        "wte forward r, wpe forward r, h.0 forward r, h.1 forward r, ln_f forward r, "
        "wte classifier rg, "
        "ln_f backward_input rg!, h.1 backward_input rg, h.0 backward_input rg, "
        "h.1 backward_weight g!, h.0 backward_weight g!, wpe backward_weight g!, "
        "wte backward_weight g!");
  CHECK(text_of(last, in_two_halves(last, training_walk(last))) ==
        "h.1 forward r, ln_f forward r, wte classifier rg, "
        "wte backward_input !, ln_f backward_input rg!, h.1 backward_input rg, "
        "h.1 backward_weight g!");
}

TEST_CASE("a classifier with a weight of its own has its gradient before backward begins") {
  ModelConfig untied = kConfig;
  untied.untied = true;
  const Layout whole(untied, 1), last(untied, 1, {.first = 3});
  CHECK(text_of(whole, training_walk(whole)) ==
        "wte forward r, wpe forward r, h.0 forward r, h.1 forward r, ln_f forward r, "
        "lm_head classifier rg, "
        "lm_head backward !, ln_f backward rg!, h.1 backward rg!, h.0 backward rg!, "
        "wpe backward g!, wte backward g!");
  CHECK(whole.num_parameters() == describe(kConfig).num_parameters() + 5 * 4);
  // No stage shares a unit with another one then.
  CHECK(last.shared_units().empty());
  CHECK(last.units().size() == 3);
}

}  // namespace
}  // namespace ladder::testing
