// 16.2 In groups
//
// Each stage holds `chunks` chunks of the model. Micro-batches go through them in groups of
// `stages`: all of the first group through chunk 0, then all of it through chunk 1, and so on; then
// the next group. So with 2 stages and 2 chunks a stage runs the micro-batches 0 1 0 1 2 3 2 3
// forward.
//
// Returns micro-batch and chunk of the i-th forward of a stage, counted from 0.
// Example: 2 stages, 2 chunks, i = 3: {1, 1}.
#include <utility>

std::pair<int, int> ith_forward(int i, int stages, int chunks) {
  throw "not written yet";  // yours
}
