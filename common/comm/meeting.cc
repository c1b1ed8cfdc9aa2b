#include "common/comm/meeting.h"

#include <chrono>
#include <new>

#include "common/comm/patience.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

using Clock = std::chrono::steady_clock;

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

Meeting::Meeting(MPI_Comm comm, double timeout_seconds, const std::atomic<bool>& given_up)
    : timeout_seconds_(timeout_seconds), given_up_(given_up) {
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

void Meeting::wait_for(std::atomic<uint64_t> Slot::*mark, const char* what) const {
  Patience patience(slots_.size());
  Clock::time_point begin;
  for (const Slot* slot : slots_) {
    while ((slot->*mark).load(std::memory_order_acquire) < count_) {
      patience.wait();
      if (!patience.is_long()) continue;  // clocks and flags cost time
      check(!given_up_, "given up after an error");
      if (begin == Clock::time_point()) begin = Clock::now();
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (timeout_seconds_ > 0 && waited.count() > timeout_seconds_) fail_late(mark, what);
    }
  }
}

void Meeting::fail_late(std::atomic<uint64_t> Slot::*mark, const char* what) const {
  std::string late;
  for (size_t r = 0; r < slots_.size(); ++r) {
    if (slots_[r]->*mark < count_) late += concat(late.empty() ? "" : ", ", r);
  }
  fail(concat("collective number ", count_, ", ", to_string(call_of(rank_)), ": after ",
              timeout_seconds_, " s rank ", late, " of the group did not ", what));
}

void Meeting::enter(const Call& call) {
  ++count_;
  Slot& own = *slots_[rank_];
  own.calls[count_ % 2] = call;
  own.entered.store(count_, std::memory_order_release);
  wait_for(&Slot::entered, "arrive");
  for (size_t r = 0; r < slots_.size(); ++r) {
    if (same(call, call_of(r))) continue;
    fail(concat("collective number ", count_, " differs: rank ", rank_, " of the group calls ",
                to_string(call), ", rank ", r, " calls ", to_string(call_of(r))));
  }
}

const Meeting::Call& Meeting::call_of(size_t rank) const { return slots_[rank]->calls[count_ % 2]; }

void Meeting::leave() {
  slots_[rank_]->left.store(count_, std::memory_order_release);
  wait_for(&Slot::left, "finish");
}

}  // namespace ladder
