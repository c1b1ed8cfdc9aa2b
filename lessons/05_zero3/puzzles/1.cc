// 05.1 How many cards?
//
// In fp32 a parameter takes 4 bytes, its gradient 4, and its two moments 8 together. N cards share
// the batch. With stage 0 (lesson 02) each card has all of this. Stage 1 divides the moments among
// the cards, stage 2 also the gradients, stage 3 the parameters, too. Nothing else counts.
//
// Returns the smallest N with which no card needs more than `card_bytes`; 0 if no number is enough.
// Example: stage 1, 10 parameters, 100 bytes: 4 cards, with 80 + 80/4 bytes each.
#include <cmath>

int fewest_cards(int stage, double parameters, double card_bytes) {
  throw "not written yet";  // yours
}
