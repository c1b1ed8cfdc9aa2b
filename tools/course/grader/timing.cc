// Linked into a learner's program: lets what it starts in the background run as early or as late as
// it may, or slowly. A program that waits for what it has started computes the same, and one that
// does not is wrong every time, and not only on a busy machine. LADDER_BACKGROUND says which
// (Timing in grading.h); without it nothing is held back.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "common/comm/delay.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// Of all workers together. Only one thread starts tasks.
std::atomic<size_t> num_started = 0, num_begun = 0, num_ended = 0;
std::atomic<bool> is_waited_for = false;
thread_local bool is_worker = false, has_begun = false;  // the task of this worker

// Returns when `done`, or after so long: two ranks that wait for each other shall go on.
template <typename Done>
void wait_until(Done done, double seconds) {
  const Time begin = Clock::now();
  while (!done() && seconds_since(begin) < seconds) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// A task has run before its start returns.
void run_early(std::string_view where) {
  if (where == "told: a task is to be queued") ++num_started;
  if (where == "worker: after a task") ++num_ended;
  if (where != "told: a task is started") return;
  wait_until([] { return num_ended >= num_started; }, 1);
}

// A task runs when it is waited for.
void run_late(std::string_view where) {
  if (where == "told: a task is to be queued") is_waited_for = false;
  if (where == "told: a task is waited for") is_waited_for = true;
  if (where != "worker: before a task") return;
  wait_until([] { return is_waited_for.load(); }, 0.1);
}

// A task is under way when its start returns, and takes so long that computation can begin then.
void run_slowly(std::string_view where) {
  if (where == "told: a task is to be queued") ++num_started;
  if (where == "worker: before a task") {
    is_worker = true;
    has_begun = false;
  }
  const bool reads = is_worker && where == "shared: before buffers are read";
  if (!has_begun && (reads || where == "worker: after a task")) {
    has_begun = true;
    ++num_begun;
  }
  if (reads) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (where != "told: a task is started") return;
  wait_until([] { return num_begun >= num_started; }, 1);
}

}  // namespace

void delay_for_tests(const char* where) {
  static const char* const value = std::getenv("LADDER_BACKGROUND");
  static const std::string_view timing = value == nullptr ? "" : value;
  if (timing == "early") run_early(where);
  if (timing == "late") run_late(where);
  if (timing == "slow") run_slowly(where);
}

}  // namespace ladder
