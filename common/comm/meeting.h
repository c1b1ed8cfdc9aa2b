// Where the ranks of a group on one machine meet: a line of shared memory for each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/comm/bell.h"
#include "common/comm/call.h"
#include "common/comm/mpi_world.h"

namespace ladder {

// Every collective begins with enter(): each rank writes down what it calls, waits for all, and
// compares. So ranks that call different operations, or with different sizes, end with an error
// that names both instead of hanging or adding up the wrong numbers.
class Meeting {
 public:
  struct Limits {
    double timeout_seconds = 0;   // of a wait for other ranks; 0 = for ever
    double sleep_seconds = 0.01;  // of a sleep that nobody ends
  };
  // Collective over `comm`, whose ranks are all on one machine and have these `names`, such as
  // "rank 3 on hostname". Waits end with an Error once `given_up` is set. Names and `given_up` must
  // outlive this.
  Meeting(MPI_Comm comm, const std::vector<std::string>& names, const Limits& limits,
          const std::atomic<bool>& given_up);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Returns when all ranks have entered. Throws Error where a call differs, or after the timeout
  // with the ranks that did not arrive.
  void enter(const Call& call);
  // After enter: what `rank` has called. Valid until the next enter.
  const Call& call_of(size_t rank) const;
  // Returns when all ranks have left: until then peers may read and write this rank's buffers.
  void leave();

 private:
  // A call and its number, set last: what a peer waits for and then reads is one cache line.
  struct alignas(64) Entry {
    Call call;
    std::atomic<uint64_t> number;
  };
  static_assert(sizeof(Entry) == 64);
  struct Slot {
    Entry entries[2];  // in turn: a rank may write its next call while a peer still reads this one
    alignas(64) std::atomic<uint64_t> left;
    alignas(64) Bell bell;  // that of rank 0 is everybody's
  };
  // Sets this rank's mark_of(slot) to this call's number; returns when all ranks' are there.
  template <class MarkOf>
  void meet(MarkOf mark_of, const char* what);
  template <class MarkOf>
  [[noreturn]] void fail_late(MarkOf mark_of, const char* what) const;

  MPI_Win window_ = MPI_WIN_NULL;
  const std::vector<std::string>& names_;
  std::vector<Slot*> slots_;
  size_t rank_ = 0;
  uint64_t count_ = 0;
  Limits limits_;
  const std::atomic<bool>& given_up_;
};

}  // namespace ladder
