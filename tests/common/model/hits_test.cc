// The hits that an accuracy is computed from: rows that count, and of them those in which no output
// is larger than the target's.
#include <random>

#include "common/model/classifier.h"
#include "kernels/elementwise.h"
#include "kernels/runtime/target.h"
#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder::testing {
namespace {

TEST_CASE("hits are those of the rows whose target counts") {
  for_random_cases(30, [](size_t seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const size_t rows = 1 + random() % 40, outputs = 2 + random() % 5, c = 4;
    const size_t tile = 1 + random() % rows;
    Memory memory(DeviceType::cpu, "device", 0);
    Stream stream(DeviceType::cpu);
    const auto make = [&](const Shape& shape, DType dtype = DType::fp64) {
      return Tensor(memory, Category::workspace, dtype, shape);
    };
    const Tensor x = make({rows, c}), wte = make({outputs, c}), losses = make({rows});
    const Tensor targets = make({rows}, DType::int32);
    const Tensor logits = make({tile, outputs}), statistics = make({3 * tile});
    fill_normal(stream, x, seed, 1, 1);
    fill_normal(stream, wte, seed, 2, 1);
    Hits expected;
    for (size_t row = 0; row < rows; ++row) {
      int32_t& target = targets.view().as<int32_t>()[row];
      target = random() % 3 == 0 ? kIgnored : static_cast<int32_t>(random() % outputs);
      if (target == kIgnored) continue;
      std::vector<double> sums(outputs);
      for (size_t i = 0; i < outputs * c; ++i) {
        sums[i / c] += wte.view().as<double>()[i] * x.view().as<double>()[row * c + i % c];
      }
      ++expected.all;
      if (*std::ranges::max_element(sums) == sums[static_cast<size_t>(target)]) ++expected.right;
    }
    Hits hits;
    classifier_forward(stream, losses, x, wte, targets,
                       {.logits = logits, .dlogits = logits, .statistics = statistics}, {}, 0,
                       &hits);
    CHECK(hits.all == expected.all);
    CHECK(hits.right == expected.right);
  });
}

}  // namespace
}  // namespace ladder::testing
