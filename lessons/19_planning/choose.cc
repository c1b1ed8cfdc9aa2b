#include "lessons/19_planning/choose.h"

#include <algorithm>
#include <cmath>

namespace ladder {

Price price_of(const Offer& offer, double tokens) {
  const double steps = std::ceil(tokens / offer.tokens_per_step);
  const double hours = steps * offer.step_seconds / 3600;
  return {.steps = steps,
          .days = hours / 24,
          .device_hours = hours * static_cast<double>(offer.num_devices)};
}

Choice choose(const std::vector<Offer>& offers, const Limits& limits) {
  const auto days = [&](size_t i) { return price_of(offers[i], limits.tokens).days; };
  const auto hours = [&](size_t i) { return price_of(offers[i], limits.tokens).device_hours; };
  Choice choice;
  std::vector<size_t> kept;
  for (size_t i = 0; i < offers.size(); ++i) {
    if (!offers[i].fits) continue;
    const bool in_time = days(i) <= limits.days, in_budget = hours(i) <= limits.device_hours;
    if (in_time && in_budget) {
      kept.push_back(i);
    } else if (in_time) {
      if (!choice.in_time || hours(i) < hours(*choice.in_time)) choice.in_time = i;
    } else if (in_budget) {
      if (!choice.in_budget || days(i) < days(*choice.in_budget)) choice.in_budget = i;
    }
  }
  if (kept.empty()) return choice;
  const double fewest = hours(std::ranges::min(kept, {}, hours));
  std::ranges::copy_if(kept, std::back_inserter(choice.best),
                       [&](size_t i) { return hours(i) <= fewest * (1 + 1e-9); });
  std::ranges::stable_sort(choice.best, {}, days);
  return choice;
}

}  // namespace ladder
