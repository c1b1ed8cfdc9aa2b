// 15.1 Sorted, in one go
//
// Tokens have chosen experts: expert[i] is that of choice i. Copies of the tokens go into one
// buffer, first all of expert 0, then all of expert 1, and so on; those of one expert in the order
// of their choices.
//
// Returns the offset of each choice in the buffer.
// Example: expert {2, 0, 0, 1}, 3 experts: {3, 0, 1, 2}.
#include <vector>

std::vector<int> offsets(const std::vector<int>& expert, int experts) {
  throw "not written yet";  // yours
}
