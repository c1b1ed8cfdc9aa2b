// 05.1: adds up what a card needs, with one card more each time.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// What one of so many cards needs for each parameter, which is drawn with a letter a byte and more.
inline double card_need(int stage, int cards, std::string& drawing) {
  const double moments = stage >= 1 ? 8. / cards : 8, gradients = stage >= 2 ? 4. / cards : 4,
               parameters = stage >= 3 ? 4. / cards : 4;
  drawing = std::string(static_cast<size_t>(4 * parameters), 'p') +
            std::string(static_cast<size_t>(4 * gradients), 'g') +
            std::string(static_cast<size_t>(4 * moments), 'm');
  return moments + gradients + parameters;
}

inline void check_05_1(Cases& cases,
                       int (*fewest_cards)(int stage, double parameters, double card_bytes)) {
  constexpr int kMost = 64;  // enough for the cases below
  const std::vector<std::pair<double, double>> all = {
      {1, 16},  {1, 8},   {1, 4},    {1, 2},        {2, 30},     {10, 100},
      {10, 90}, {10, 50}, {100, 50}, {1.5e9, 16e9}, {7e9, 80e9}, {175e9, 80e9}};
  for (const auto& [parameters, card] : all) {
    for (int stage = 0; stage <= 3; ++stage) {
      cases.begin(text("stage ", stage, ", ", parameters, " parameters, ", card, " bytes"));
      int expected = 0;
      std::string drawing;
      for (int n = 1; n <= kMost && expected == 0; ++n) {
        const double need = card_need(stage, n, drawing);
        if (n <= 4 || need * parameters <= card) {
          cases.draw(n, n == 1 ? " card:  " : " cards: ", drawing, " ", need * parameters);
        }
        if (need * parameters <= card) expected = n;
      }
      const int got = fewest_cards(stage, parameters, card);
      cases.expect(got == expected, "you return ", got,
                   expected == 0 ? ", and no number is enough" : text(", and it is ", expected));
    }
  }
}

}  // namespace ladder::puzzles
