// 15.2 As they come, as they are wanted
//
// counts[s][e] tokens come from sender s for expert e of this rank. They arrive by sender, and
// those of a sender by expert. But the experts want all tokens for expert 0 first, then those for
// expert 1, and so on; those of an expert by sender.
//
// Returns for each token, in the order of arrival, its offset in the order of the experts.
// Example: counts {{1, 2}, {1, 0}}: four tokens arrive, for the experts 0, 1, 1 and 0, and the
// result is {0, 2, 3, 1}.
#include <vector>

std::vector<int> by_expert(const std::vector<std::vector<int>>& counts) {
  throw "not written yet";  // yours
}
