// The loss scale: when it moves, and when it gives up.
#include "lessons/10_mixed_precision/loss_scaler.h"

#include <vector>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// The scale before each of the steps, 'o' overflowing.
std::vector<double> scales(LossScaler scaler, const std::string& steps) {
  std::vector<double> seen;
  int64_t step = 0;
  for (char outcome : steps) {
    seen.push_back(scaler.scale());
    scaler.update(outcome == 'o', ++step);
  }
  seen.push_back(scaler.scale());
  return seen;
}

TEST_CASE("the scale doubles after a window of steps without overflow") {
  const LossScaleFlags flags = {.initial_scale = 8, .window = 3};
  CHECK(scales(LossScaler(flags, true), "......") == std::vector<double>{8, 8, 8, 16, 16, 16, 32});
  // An overflow begins the window anew.
  CHECK(scales(LossScaler(flags, true), "..o..") == std::vector<double>{8, 8, 8, 8, 8, 8});
  CHECK(scales(LossScaler(flags, true), "..o...") == std::vector<double>{8, 8, 8, 8, 8, 8, 16});
}

TEST_CASE("the scale halves with the overflows beyond the hysteresis, down to the minimum") {
  LossScaleFlags flags = {.initial_scale = 8, .window = 2, .hysteresis = 1};
  CHECK(scales(LossScaler(flags, true), "oo") == std::vector<double>{8, 4, 2});
  flags.hysteresis = 2;
  CHECK(scales(LossScaler(flags, true), "ooo") == std::vector<double>{8, 8, 4, 2});
  // A good step does not refill it, doubling does.
  CHECK(scales(LossScaler(flags, true), "o.o") == std::vector<double>{8, 8, 8, 4});
  CHECK(scales(LossScaler(flags, true), "o..o") == std::vector<double>{8, 8, 8, 16, 16});
  flags.min_loss_scale = 4;
  CHECK(scales(LossScaler(flags, true), "oooo") == std::vector<double>{8, 8, 4, 4, 4});
}

TEST_CASE("a fixed scale stays, and without a dynamic one it is 1") {
  CHECK(scales(LossScaler({.loss_scale = 128, .window = 1}, true), "..") ==
        std::vector<double>{128, 128, 128});
  CHECK(scales(LossScaler({.initial_scale = 8, .window = 1}, false), ".o.") ==
        std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("overflows at the smallest scale end training, with the step that was one too many") {
  LossScaleFlags flags = {.initial_scale = 2, .hysteresis = 1};
  LossScaler scaler(flags, true);
  int64_t step = 0;
  scaler.update(true, ++step);  // 2 to 1: not at the smallest yet
  for (int64_t i = 1; i < LossScaler::kMostSkips; ++i) scaler.update(true, ++step);
  scaler.update(false, ++step);  // one good step, and the count begins anew
  for (int64_t i = 1; i < LossScaler::kMostSkips; ++i) scaler.update(true, ++step);
  CHECK_THROWS_WITH(scaler.update(true, ++step), ContainsSubstring("step 41: 20 steps in a row") &&
                                                     ContainsSubstring("--min-loss-scale"));
  LossScaler fixed({.loss_scale = 4}, true);
  for (int64_t i = 1; i < LossScaler::kMostSkips; ++i) fixed.update(true, i);
  CHECK_THROWS_WITH(fixed.update(true, 20), ContainsSubstring("--loss-scale 0"));
}

}  // namespace
}  // namespace ladder
