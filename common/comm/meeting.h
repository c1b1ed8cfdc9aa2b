// The place in shared memory where the ranks of a group on one machine wait for each other.
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
    double timeout_seconds = 0;       // the longest wait for other ranks; 0 = wait for ever
    double sleep_seconds = 0.01;      // the longest sleep before a rank looks again
    const MpiWorld* world = nullptr;  // knows whom late ranks wait for; null: nobody does
  };
  // Collective over `comm`, whose ranks must all be on one machine. `names` has the name of each
  // rank, such as "rank 3 on hostname". Once `given_up` is set, waits end with an Error. `names`
  // and `given_up` must outlive this object.
  Meeting(MPI_Comm comm, const std::vector<std::string>& names, const Limits& limits,
          const std::atomic<bool>& given_up);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Returns when all ranks have entered. Throws Error if a rank's call differs; after the timeout
  // the Error names the ranks that did not arrive.
  void enter(const Call& call);
  // Returns what `rank` gave to the last enter(). It is valid until the next enter().
  const Call& call_of(size_t rank) const;
  // Returns when all ranks have left. Until then peers may read and write this rank's buffers.
  void leave();

 private:
  // A call, and its number, which is set last. Both lie in one cache line, so a peer that has
  // waited for the number has the call too.
  struct alignas(64) Entry {
    Call call;
    std::atomic<uint64_t> number;
  };
  static_assert(sizeof(Entry) == 64);
  struct RankState {
    // The entries are used in turn: a rank may write its next call while a peer still reads this
    // one.
    Entry entries[2];
    alignas(64) std::atomic<uint64_t> left;  // the number of the last call that the rank has left
    alignas(64) Bell bell;                   // only rank 0's is used, by all ranks
  };
  // Sets this rank's mark, mark_of(its state), to the number of this call, and returns when all
  // ranks have done the same.
  template <class MarkOf>
  void meet(MarkOf mark_of, const char* what);
  // Throws the Error that names the ranks whose mark is not there yet.
  template <class MarkOf>
  [[noreturn]] void fail_late(MarkOf mark_of, const char* what) const;

  MPI_Win window_ = MPI_WIN_NULL;
  const std::vector<std::string>& names_;
  std::vector<RankState*> states_;  // by rank, in shared memory
  size_t rank_ = 0;
  uint64_t count_ = 0;  // calls so far, which is the number of the present call
  Limits limits_;
  const std::atomic<bool>& given_up_;
};

}  // namespace ladder
