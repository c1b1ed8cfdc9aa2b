// 19.1 What to rent
//
// You can train on gpus[i] GPUs, with which a step takes seconds[i]. Each GPU costs the same for
// each second from the first step to the last. You need `steps` steps, in at most `hours` hours
// (just reaching it is fine).
//
// Returns how many GPUs you take: the cheapest that are in time; of equally cheap ones the
// quickest; 0 if none is in time. No two have the same number of GPUs.
// Example: gpus {1, 2}, seconds {3600, 2000}, steps 10, hours 8: 2. One GPU would cost less, but
// takes 10.
#include <vector>

int gpus_to_rent(const std::vector<int>& gpus, const std::vector<int>& seconds, int steps,
                 int hours) {
  throw "not written yet";  // yours
}
