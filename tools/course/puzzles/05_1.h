// 05.1: adds up what a card needs, with one card more each time.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// What one of so many cards needs for each parameter.
struct CardNeed {
  double parameters, gradients, moments;
  double total() const { return parameters + gradients + moments; }
};
inline CardNeed card_need(int stage, int cards) {
  return {stage >= 3 ? 4. / cards : 4, stage >= 2 ? 4. / cards : 4, stage >= 1 ? 8. / cards : 8};
}

// Draws it, with a line where the card is full.
inline std::string drawn(const CardNeed& need, double bytes_a_parameter) {
  const double scale = 32 / bytes_a_parameter;
  std::string bar;
  bar.append(static_cast<size_t>(std::min(99., std::round(scale * need.parameters))), 'p');
  bar.append(static_cast<size_t>(std::min(99., std::round(scale * need.gradients))), 'g');
  bar.append(static_cast<size_t>(std::min(99., std::round(scale * need.moments))), 'm');
  bar.resize(std::max<size_t>(bar.size(), 32), ' ');
  bar.insert(32, "|");
  return bar.size() <= 80 ? bar : bar.substr(0, 80) + "...";
}

inline void check_05_1(Cases& cases,
                       int (*fewest_cards)(int stage, double parameters, double card_bytes)) {
  constexpr int kMost = 64;  // enough for the cases below
  const std::vector<std::pair<double, double>> all = {
      {10, 100}, {1, 16},  {1, 8},    {1, 4},         {1, 2},      {2, 30},
      {10, 90},  {10, 50}, {100, 50}, {1.56e9, 24e9}, {7e9, 80e9}, {175e9, 141e9}};
  for (const auto& [parameters, card] : all) {
    for (const int stage : {1, 2, 3, 0}) {
      cases.begin(text("stage = ", stage, ", parameters = ", parameters, ", card_bytes = ", card));
      int expected = 0;
      for (int n = 1; n <= kMost && expected == 0; ++n) {
        const CardNeed need = card_need(stage, n);
        if (need.total() * parameters <= card) expected = n;
        if (n > 4 && expected == 0) continue;
        cases.draw(n, n == 1 ? " card   " : " cards  ", drawn(need, card / parameters));
      }
      const int got = fewest_cards(stage, parameters, card);
      cases.expect(got == expected, "you return ", got,
                   expected == 0 ? ", and no number is enough" : text(", and it is ", expected));
    }
  }
}

}  // namespace ladder::puzzles
