#include "common/comm/meeting.h"

#include <immintrin.h>
#include <sched.h>

#include <chrono>
#include <new>
#include <thread>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Clock = std::chrono::steady_clock;

// Waits longer and longer: most peers arrive within microseconds, a rank that shares the core needs
// it, and one that computes for milliseconds must not have a neighbour spinning beside it.
class Patience {
 public:
  void wait() {
    ++rounds_;
    if (rounds_ < 500) {
      _mm_pause();
    } else if (rounds_ < 1000) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int rounds_ = 0;
};

bool same(const Meeting::Call& a, const Meeting::Call& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.peer == b.peer && a.elements == b.elements;
}

}  // namespace

std::string to_string(const Meeting::Call& call) {
  std::string text(name_of(call.collective));
  if (call.collective == Collective::barrier) return text;
  if (call.reduction == Reduction::max) text += " (max)";
  text += concat(" of ", call.elements, " ", name_of(call.dtype));
  if (call.collective == Collective::broadcast || call.collective == Collective::reduce) {
    text += concat(" with root ", call.peer);
  }
  return text;
}

Meeting::Meeting(MPI_Comm comm, double timeout_seconds) : timeout_seconds_(timeout_seconds) {
  int rank = 0, size = 0;
  mpi_check(MPI_Comm_rank(comm, &rank));
  mpi_check(MPI_Comm_size(comm, &size));
  rank_ = static_cast<size_t>(rank);
  void* own = nullptr;
  mpi_check(MPI_Win_allocate_shared(2 * sizeof(Slot), 1, MPI_INFO_NULL, comm, &own, &window_));
  for (int r = 0; r < size; ++r) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* base = nullptr;
    mpi_check(MPI_Win_shared_query(window_, r, &bytes, &unit, &base));
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(base) + 63) / 64 * 64;
    slots_.push_back(reinterpret_cast<Slot*>(aligned));
  }
  new (slots_[rank_]) Slot{};
  mpi_check(MPI_Barrier(comm));  // nobody looks into a slot before it exists
}

Meeting::~Meeting() {
  if (std::uncaught_exceptions() == 0) MPI_Win_free(&window_);  // waits for the others: see there
}

void Meeting::wait_for(const std::function<bool(const Slot&)>& arrived, const char* what) const {
  const Clock::time_point begin = Clock::now();
  for (size_t r = 0; r < slots_.size(); ++r) {
    Patience patience;
    while (!arrived(*slots_[r])) {
      patience.wait();
      if (timeout_seconds_ <= 0) continue;
      if (std::chrono::duration<double>(Clock::now() - begin).count() < timeout_seconds_) continue;
      std::string missing;
      for (size_t p = 0; p < slots_.size(); ++p) {
        if (!arrived(*slots_[p])) missing += concat(missing.empty() ? "" : ", ", p);
      }
      if (missing.empty()) continue;
      fail(concat("collective number ", count_, ", ", to_string(call_of(rank_)), ": after ",
                  timeout_seconds_, " s rank ", missing, " of the group did not ", what));
    }
  }
}

void Meeting::enter(const Call& call) {
  ++count_;
  Slot& own = *slots_[rank_];
  own.calls[count_ % 2] = call;
  own.entered.store(count_, std::memory_order_release);
  wait_for([&](const Slot& s) { return s.entered.load(std::memory_order_acquire) >= count_; },
           "arrive");
  for (size_t r = 0; r < slots_.size(); ++r) {
    if (same(call, call_of(r))) continue;
    fail(concat("collective number ", count_, " differs: rank ", rank_, " of the group calls ",
                to_string(call), ", rank ", r, " calls ", to_string(call_of(r))));
  }
}

const Meeting::Call& Meeting::call_of(size_t rank) const { return slots_[rank]->calls[count_ % 2]; }

void Meeting::leave() {
  slots_[rank_]->left.store(count_, std::memory_order_release);
  wait_for([&](const Slot& s) { return s.left.load(std::memory_order_acquire) >= count_; },
           "finish");
}

}  // namespace ladder
