// 20.1: rows that are orthogonal, and rows that are not.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_20_1(Cases& cases,
                       void (*make_orthogonal)(std::vector<double>& a, std::vector<double>& b)) {
  constexpr double kNear = 1e-5;  // singular values that are 1e-7 too small at first do no harm
  using Row = std::vector<double>;
  const auto dot = [](const Row& x, const Row& y) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  };
  const std::pair<Row, Row> all[] = {{{0.6, 0}, {0, 0.8}},
                                     {{0, -1}, {0, 0}},
                                     {{0.7, 0.1}, {0.5, 0.5}},
                                     {{0.6}, {0.8}},
                                     {{0.1, 0.3, 0.4}, {0.5, 0.7, 0}},
                                     {{0.5, 0.5}, {0.5, 0.5}},
                                     {{0.1, 0.1, 0.7, 0.2}, {0.5, 0.4, -0.2, 0}}};
  for (const auto& [first, second] : all) {
    cases.begin(text("a = {", listed(first), "}, b = {", listed(second), "}"));
    const size_t n = first.size();
    Row a = first, b = second;
    for (int iteration = 0; iteration < 5; ++iteration) {
      const double aa = dot(a, a), ab = dot(a, b), bb = dot(b, b);
      for (size_t i = 0; i < n; ++i) {
        const double x = aa * a[i] + ab * b[i], y = ab * a[i] + bb * b[i];
        a[i] = 3.4445 * a[i] - 4.7750 * x + 2.0315 * (aa * x + ab * y);
        b[i] = 3.4445 * b[i] - 4.7750 * y + 2.0315 * (ab * x + bb * y);
      }
    }
    Row own_a = first, own_b = second;
    make_orthogonal(own_a, own_b);
    cases.expect(own_a.size() == n && own_b.size() == n, "your rows have ", own_a.size(), " and ",
                 own_b.size(), " numbers");
    cases.draw("a {", listed(own_a), "}, ", std::sqrt(dot(own_a, own_a)), " long\nb {",
               listed(own_b), "}, ", std::sqrt(dot(own_b, own_b)), " long, ab is ",
               dot(own_a, own_b));
    for (size_t i = 0; i < n; ++i) {
      cases.expect(std::abs(own_a[i] - a[i]) <= kNear && std::abs(own_b[i] - b[i]) <= kNear,
                   "they are {", listed(a), "} and {", listed(b), "}");
    }
  }
}

}  // namespace ladder::puzzles
