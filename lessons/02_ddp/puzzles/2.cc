// 02.2 Where does a bucket end?
//
// Units are numbered as forward uses them. bytes[u] is the size of the gradient of unit u. Backward
// makes gradients final from the last unit to the first. In this order units fill a bucket, until
// it has at least `bucket_bytes`; the next unit begins another one. Unit 0 is the token embedding,
// final when nothing is left to compute. It never shares a bucket.
//
// Returns the bucket of each unit. Buckets are numbered as they are filled.
// Example: bytes {9, 1, 4, 4, 4}, bucket_bytes 6: {2, 1, 1, 0, 0}. There are at least two units.
#include <vector>

std::vector<int> bucket_of(const std::vector<int>& bytes, int bucket_bytes) {
  throw "not written yet";  // yours
}
