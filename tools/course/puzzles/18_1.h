// 18.1: the layer's output for a few x, with the adapter and with the merged weight.
#pragma once

#include <tuple>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_18_1(Cases& cases, void (*merge)(std::vector<int>& w, const std::vector<int>& a,
                                                   const std::vector<int>& b, int in, int out,
                                                   int r, int scale)) {
  Draws draws;
  const auto drawn_numbers = [&](int count) {
    std::vector<int> numbers(count);
    for (int& number : numbers) number = draws(-9, 9);
    return numbers;
  };
  for (const auto& [in, out, r, scale] : {std::tuple{1, 1, 1, 1},
                                          {1, 2, 1, 2},
                                          {2, 1, 1, 3},
                                          {2, 2, 1, 2},
                                          {2, 3, 2, 3},
                                          {4, 3, 2, 5}}) {
    const std::vector<int> w = drawn_numbers(in * out), a = drawn_numbers(r * in),
                           b = drawn_numbers(out * r);
    cases.begin(text("in = ", in, ", out = ", out, ", r = ", r, ", scale = ", scale));
    cases.draw("w = ", listed(w), "\na = ", listed(a), "\nb = ", listed(b));
    std::vector<int> merged = w;
    merge(merged, a, b, in, out, r, scale);
    cases.expect(merged.size() == w.size(), "w has ", merged.size(), " numbers then, not ",
                 w.size());
    cases.draw("w becomes ", listed(merged));
    for (int i = 0; i < in; ++i) {  // x is 1 at i, and 0 elsewhere
      for (int o = 0; o < out; ++o) {
        int added = 0;
        for (int k = 0; k < r; ++k) added += a[k * in + i] * b[o * r + k];
        const int expected = w[i * out + o] + scale * added, got = merged[i * out + o];
        cases.expect(got == expected, "input ", i, " alone gives output ", o, " the value ", got,
                     " by w, and with the adapter ", expected);
      }
    }
  }
}

}  // namespace ladder::puzzles
