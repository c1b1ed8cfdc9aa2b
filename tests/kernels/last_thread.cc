// In a program that links this file these functions take the place of libgomp's.
#include "tests/kernels/last_thread.h"

namespace {

using Count = unsigned long long;  // NOLINT: libgomp's type

int num_threads = 1;
int depth = 0;  // of parallel regions around: an inner one has one thread

// The part of a dynamic loop that has not been done.
Count next_chunk = 0, end_of_loop = 0, chunk_size = 0;

bool take_chunk(Count* first, Count* last) {
  if (next_chunk >= end_of_loop) return false;
  *first = next_chunk;
  next_chunk = end_of_loop - next_chunk > chunk_size ? next_chunk + chunk_size : end_of_loop;
  *last = next_chunk;
  return true;
}

}  // namespace

namespace ladder::testing {

LastThreadOf::LastThreadOf(int num) { num_threads = num; }
LastThreadOf::~LastThreadOf() { num_threads = 1; }

}  // namespace ladder::testing

extern "C" {

void GOMP_parallel(void (*body)(void*), void* data, unsigned, unsigned) {
  ++depth;
  body(data);
  --depth;
}
void GOMP_barrier() {}

int omp_get_num_threads() { return depth == 1 ? num_threads : 1; }
int omp_get_thread_num() { return omp_get_num_threads() - 1; }

// REQUIRES: the loop counts up.
bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool, Count start, Count end, Count step, Count chunk,
                                              Count* first, Count* last) {
  chunk_size = chunk * step;
  end_of_loop = end;
  next_chunk = start;
  if (num_threads > 1 && start < end) next_chunk += (end - 1 - start) / chunk_size * chunk_size;
  return take_chunk(first, last);
}
bool GOMP_loop_ull_nonmonotonic_dynamic_next(Count* first, Count* last) {
  return take_chunk(first, last);
}
void GOMP_loop_end() {}
void GOMP_loop_end_nowait() {}

}  // extern "C"
