// Tells the thread sanitizer what OpenMP orders. It does not see into libgomp, so without this
// every loop would look like a race with the one before. In a program that links this file these
// functions take the place of libgomp's; all but loops with a dynamic schedule go on to libgomp.
//
// A directive whose functions are not here (single, critical, ...) looks like a race as well: then
// they belong here. The file itself is not compiled for the sanitizer, which calls it.
#include "tests/kernels/thread_sanitizer.h"

#include <dlfcn.h>
#include <omp.h>
#include <sanitizer/tsan_interface.h>

#include <algorithm>

namespace {

int races = 0;

using Count = unsigned long long;  // NOLINT: libgomp's type

template <class Function>
Function* of_libgomp(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// A parallel region, whose addresses stand for its beginning and its end.
struct Region {
  void (*body)(void*);
  void* data;
  char end = 0;
};

// Two barriers in turn: a thread that is ahead has come to the next one at most.
char barriers[2];
thread_local unsigned num_barriers = 0;  // that this thread has passed in its region

// What this thread is to do of the dynamic loop that it is in.
struct Share {
  Count next, end, chunk, step;

  bool take(Count* first, Count* last) {
    if (next >= end) return false;
    *first = next;
    *last = std::min(end, next + chunk);
    next += step;
    return true;
  }
};
thread_local Share share;
thread_local unsigned num_loops = 0;  // dynamic ones of this thread in its region

void run_region(void* argument) {
  auto* const region = static_cast<Region*>(argument);
  __tsan_acquire(region);
  num_barriers = num_loops = 0;
  region->body(region->data);
  __tsan_release(&region->end);
}

}  // namespace

namespace ladder::testing {

int num_races() { return races; }

}  // namespace ladder::testing

extern "C" {

// Called by the sanitizer with every race.
void __tsan_on_report(void*) { ++races; }
// Its own exit status is not needed: the test fails.
const char* __tsan_default_options() { return "exitcode=0"; }
// oneDNN is not compiled for the sanitizer either: what orders its threads cannot be seen.
const char* __tsan_default_suppressions() { return "race:libdnnl"; }

void GOMP_parallel(void (*body)(void*), void* data, unsigned num_threads, unsigned flags) {
  static auto* const original = of_libgomp(&GOMP_parallel, "GOMP_parallel");
  Region region = {body, data};
  __tsan_release(&region);
  original(&run_region, &region, num_threads, flags);
  __tsan_acquire(&region.end);
}

void GOMP_barrier() {
  static auto* const original = of_libgomp(&GOMP_barrier, "GOMP_barrier");
  char* const barrier = &barriers[num_barriers++ % 2];
  __tsan_release(barrier);
  original();
  __tsan_acquire(barrier);
}

// Which thread takes which part of a dynamic loop is left to chance, and often one takes them all.
// Here thread t takes every num_threads-th part, beginning with the (t + l)-th in a region's l-th
// loop: all threads have some, and others than in the loop before. REQUIRES: the loop counts up.
bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool, Count start, Count end, Count step, Count chunk,
                                              Count* first, Count* last) {
  const auto threads = static_cast<Count>(omp_get_num_threads());
  const Count turn = (static_cast<Count>(omp_get_thread_num()) + num_loops++) % threads;
  share = {start + turn * chunk * step, end, chunk * step, threads * chunk * step};
  return share.take(first, last);
}
bool GOMP_loop_ull_nonmonotonic_dynamic_next(Count* first, Count* last) {
  return share.take(first, last);
}
void GOMP_loop_end() { GOMP_barrier(); }
void GOMP_loop_end_nowait() {}

}  // extern "C"
