// 17.2 Those that are left
//
// `ranks` ranks are left. They form a grid of data x tensor ranks, and those that are not in it are
// idle. tensor must divide `wished`, and data must divide `sequences`, those of a step.
//
// Returns {data, tensor} of the grid with the most ranks; of several, the one with the largest
// tensor.
// Example: 5 ranks, 24 sequences, wished 2: {2, 2}, and one rank is idle.
#include <utility>

std::pair<int, int> grid(int ranks, int sequences, int wished) {
  throw "not written yet";  // yours
}
