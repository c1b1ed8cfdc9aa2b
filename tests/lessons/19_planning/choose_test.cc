// The cheapest way to train that keeps the limits, against hand-made offers.
#include "lessons/19_planning/choose.h"

#include "kernels/runtime/check.h"
#include "lessons/19_planning/budget.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// Of a million tokens a step.
Offer offer(size_t num_devices, double step_seconds, double tokens_per_step = 1e6) {
  return {concat(num_devices, " GPUs"), num_devices, step_seconds, tokens_per_step};
}

using Places = std::vector<size_t>;

TEST_CASE("Steps are whole, and all devices are paid for") {
  // 2.5 steps are 3 of 1,200 s: an hour. 4 devices for an hour are 4 device-hours.
  const Price price = price_of(offer(4, 1200), 2.5e6);
  CHECK(price.steps == 3);
  CHECK(price.days == Approx(1.0 / 24));
  CHECK(price.device_hours == Approx(4));
  CHECK(price_of(offer(4, 1200), 3e6).steps == 3);
}

// 36 steps: an offer of s seconds takes s / 100 hours.
constexpr double kTokens = 36e6;

TEST_CASE("The cheapest offer in time is chosen, not the quickest one") {
  // 2, 1.1, 0.8 and 0.7 hours; 2, 2.2, 3.2 and 5.6 device-hours
  const std::vector<Offer> offers = {offer(1, 200), offer(2, 110), offer(4, 80), offer(8, 70)};
  CHECK(choose(offers, {.tokens = kTokens}).best == Places{0});
  CHECK(choose(offers, {.tokens = kTokens, .days = 1.5 / 24}).best == Places{1});
  CHECK(choose(offers, {.tokens = kTokens, .days = 1.0 / 24}).best == Places{2});
  CHECK(choose(offers, {.tokens = kTokens, .days = 0.75 / 24, .device_hours = 6}).best ==
        Places{3});
  // Another batch needs other steps: half as many here, of the same length.
  CHECK(choose({offer(1, 200), offer(2, 200, 4e6)}, {.tokens = kTokens}).best == Places{1});
}

TEST_CASE("An offer keeps a limit that it just reaches, and must fit") {
  std::vector<Offer> offers = {offer(2, 100), offer(1, 50)};
  const Price first = price_of(offers[0], kTokens);
  offers[1].fits = false;
  const Limits limits = {.tokens = kTokens, .days = first.days, .device_hours = first.device_hours};
  CHECK(choose(offers, limits).best == Places{0});
  CHECK(choose({offers[1]}, limits).best.empty());
  CHECK_FALSE(choose({offers[1]}, limits).in_time);
  CHECK_FALSE(choose({offers[1]}, limits).in_budget);
}

TEST_CASE("Ties are all named, the quickest first") {
  // Two device-hours each, and one that is cheaper but too late.
  const std::vector<Offer> offers = {offer(1, 200), offer(2, 100), offer(8, 25), offer(1, 190),
                                     offer(8, 25)};
  CHECK(choose(offers, {.tokens = kTokens, .days = 1.0 / 24}).best == Places{2, 4, 1});
  // A third is not exact: these are equal but for rounding.
  CHECK(choose({offer(3, 100.0 / 3), offer(1, 100)}, {.tokens = kTokens}).best == Places{0, 1});
}

TEST_CASE("If none keeps both limits, the nearest of each side are named, and would do") {
  // 2, 1.1, 0.8 and 0.7 hours; 2, 2.2, 3.2 and 5.6 device-hours
  const std::vector<Offer> offers = {offer(1, 200), offer(2, 110), offer(4, 80), offer(8, 70)};
  const Limits both = {.tokens = kTokens, .days = 1.0 / 24, .device_hours = 3};
  const Choice choice = choose(offers, both);
  CHECK(choice.best.empty());
  CHECK(choice.in_time == 2);
  CHECK(choice.in_budget == 1);
  CHECK(no_choice_text(offers, choice, both) ==
        "nothing trains on 3.6e+07 tokens in at most 0.0416667 days for at most 3 GPU-hours; 3.2 "
        "GPU-hours would do (4 GPUs); 0.05 days would do (2 GPUs)");
  const Limits neither = {.tokens = kTokens, .days = 0.1 / 24, .device_hours = 1};
  CHECK(no_choice_text(offers, choose(offers, neither), neither) ==
        "nothing trains on 3.6e+07 tokens in at most 0.00416667 days for at most 1 GPU-hours; the "
        "fastest takes 0.03 days (8 GPUs), the cheapest 2.0 GPU-hours (1 GPUs)");
}

TEST_CASE("What was measured is read, and nothing else") {
  const Offer measured = measured_offer("8:1.5:524288");
  CHECK(measured.num_devices == 8);
  CHECK(measured.step_seconds == 1.5);
  CHECK(measured.tokens_per_step == 524288);
  CHECK(measured.fits);
  CHECK_FALSE(measured_offer("1:oom").fits);
  for (const char* const bad :
       {"", "8", "8:", "8:1.5", "8:1.5:", "0:1:1", "8:0:1", "8:-1:1", "8:1:0", "8:1:x", "8:nan:1",
        "8:inf:1", "x:oom", ":oom", "8:1:1:1", "8:oom:1", "1e3:1:1", "8:1:1e99"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(measured_offer(bad), UserError);
  }
}

}  // namespace
}  // namespace ladder
