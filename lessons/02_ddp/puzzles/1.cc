// 02.1 What is left to wait for
//
// Backward makes buckets ready, one after the other: bucket i at time ready[i]. The last one is
// ready when backward ends. The sum of bucket i takes takes[i]. It can begin when the bucket is
// ready and the sum of the bucket before is over.
//
// Returns for how long ranks wait after the end of backward, until the last sum is over.
// Example: ready {2, 4}, takes {3, 1}: the sums run from 2 to 5 and from 5 to 6, so 2 is returned.
#include <algorithm>
#include <vector>

int waits(const std::vector<int>& ready, const std::vector<int>& takes) {
  throw "not written yet";  // yours
}
