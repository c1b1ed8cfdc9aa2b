// A masked model's loss and gradients against PyTorch: tests/golden/make_masked_golden.py says what
// the file holds.
#include "kernels/runtime/target.h"
#include "tests/common/model/support.h"
#include "tests/golden/golden_file.h"

namespace ladder::testing {
namespace {

// 1e-11 of a tensor's largest element, as in golden_test.cc. The gradient of the keys' bias is
// nothing but rounding (softmax does not see a shift), beside those of q and v in its tensor.
constexpr double kBound = 1e-11;

// Returns the tensors that are off by more than kBound, or NaN, with this objective.
std::vector<std::string> differences(Objective objective, size_t micro_batch) {
  const GoldenFile sizes("tests/golden/gpt2_small.safetensors");
  const GoldenFile golden("tests/golden/gpt2_masked.safetensors");
  ModelConfig config = {sizes.setting("layers"), sizes.setting("heads"), sizes.setting("hidden"),
                        sizes.setting("vocab"), sizes.setting("sequence_length")};
  config.objective = objective;
  const std::vector<size_t> shape = golden.reader().find("tokens")->shape;
  const size_t batch = shape[0], time = shape[1];
  TestModel model(config, DType::fp64, micro_batch, time);
  model.for_each(model.parameters, [&](const Parameter& parameter, TensorView part) {
    set_values(part, sizes.values("init." + parameter.name));
  });
  fill(stream(), model.gradients, 0);
  const Values expected_targets = golden.values("targets");
  const Tokens tokens(golden.values("tokens"), time), targets(expected_targets, time);
  const auto ignored = std::ranges::count(expected_targets, double{kIgnored});
  REQUIRE(ignored > 0);
  const double weight = 1 / static_cast<double>(batch * time - static_cast<size_t>(ignored));

  double loss = 0;
  for (size_t row = 0; row < batch; row += micro_batch) {
    for (double l :
         model.accumulate(tokens.rows(row, micro_batch), targets.rows(row, micro_batch), weight)) {
      loss += weight * l;
    }
  }
  std::vector<std::string> found;
  const auto compare = [&](const std::string& name, const Values& got) {
    const Values expected = golden.values(name);
    REQUIRE(got.size() == expected.size());
    Values off;
    for (size_t i = 0; i < got.size(); ++i) off.push_back(got[i] - expected[i]);
    if (!(largest(off) <= kBound * largest(expected))) found.push_back(name);
  };
  compare("loss", {loss});
  model.for_each(model.gradients, [&](const Parameter& parameter, TensorView part) {
    compare("grad." + parameter.name, values_of(part));
  });
  return found;
}

TEST_CASE("fp64: loss and gradients of a masked model as PyTorch computes them") {
  const size_t micro_batch = GENERATE(1, 5);
  CHECK(differences(Objective::masked, micro_batch) == std::vector<std::string>{});
}

TEST_CASE("with a causal mask the same tokens give another loss and other gradients") {
  CHECK(differences(Objective::causal, 5).size() == 29);
}

}  // namespace
}  // namespace ladder::testing
