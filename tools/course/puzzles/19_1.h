// 19.1: the price of every offer.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_19_1(Cases& cases,
                       int (*gpus_to_rent)(const std::vector<int>& gpus,
                                           const std::vector<int>& seconds, int steps, int hours)) {
  struct Request {
    std::vector<int> gpus, seconds;
    int steps, hours;
  };
  const std::vector<Request> all = {
      {{1}, {3600}, 10, 10},
      {{1}, {3600}, 10, 9},
      {{1}, {3601}, 10, 10},  // late by ten seconds
      {{1, 2}, {3600, 2000}, 10, 8},
      {{1, 2}, {3600, 2000}, 10, 10},
      {{1, 2}, {3600, 1500}, 10, 10},
      {{1, 2}, {3600, 1800}, 10, 10},
      {{2, 1}, {1800, 3600}, 10, 10},
      {{2, 1}, {1801, 3600}, 10, 10},  // more expensive by a few seconds
      {{4, 1, 2}, {900, 3600, 1800}, 10, 6},
      {{8, 4, 2, 1}, {13, 27, 54, 288}, 19074, 144},
      {{4, 8, 16, 32, 64}, {24, 12, 7, 4, 2}, 100000, 168},
  };
  for (const auto& [gpus, seconds, steps, hours] : all) {
    cases.begin(text("gpus = {", listed(gpus), "}, seconds = {", listed(seconds),
                     "}, steps = ", steps, ", hours = ", hours));
    const int got = gpus_to_rent(gpus, seconds, steps, hours);
    int best = 0;
    long long best_price = 0, best_time = 0;
    for (size_t i = 0; i < gpus.size(); ++i) {
      const long long time = static_cast<long long>(seconds[i]) * steps, price = time * gpus[i];
      const bool is_late = time > 3600ll * hours;
      cases.draw(gpus[i] == got ? "* " : "  ", gpus[i],
                 gpus[i] == 1 ? " GPU:  " : " GPUs: ", time / 3600., " hours",
                 is_late ? ", too late" : "", ", ", price / 3600., " GPU-hours");
      const bool is_better =
          best == 0 || price < best_price || (price == best_price && time < best_time);
      if (is_late || !is_better) continue;
      best = gpus[i];
      best_price = price;
      best_time = time;
    }
    cases.expect(got == best, "you return ", got, ", and it is ", best);
  }
}

}  // namespace ladder::puzzles
