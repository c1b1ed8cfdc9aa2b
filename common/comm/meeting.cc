#include "common/comm/meeting.h"

#include <new>

#include "common/comm/delay.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"

namespace ladder {

Meeting::Meeting(MPI_Comm comm, const std::vector<std::string>& names, const Limits& limits,
                 const std::atomic<bool>& given_up)
    : names_(names), limits_(limits), given_up_(given_up) {
  int rank = 0, size = 0;
  mpi_check(MPI_Comm_rank(comm, &rank));
  mpi_check(MPI_Comm_size(comm, &size));
  rank_ = static_cast<size_t>(rank);
  allocate_window(comm, 2 * sizeof(RankState), window_);
  for (int r = 0; r < size; ++r) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* base = nullptr;
    mpi_check(MPI_Win_shared_query(window_, r, &bytes, &unit, &base));
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(base) + 63) / 64 * 64;
    states_.push_back(reinterpret_cast<RankState*>(aligned));
  }
  maybe_delay("meeting: before its state exists");
  new (states_[rank_]) RankState{};
  mpi_check(MPI_Barrier(comm));  // nobody looks into a state before it exists
}

Meeting::~Meeting() {
  // Freeing waits for the other ranks, which may never come where an error ends this one.
  if (std::uncaught_exceptions() == 0) MPI_Win_free(&window_);
}

template <class MarkOf>
void Meeting::meet(MarkOf mark_of, const char* what) {
  maybe_delay("meet: before the mark");
  mark_of(*states_[rank_]) = count_;
  maybe_delay("meet: after the mark");
  size_t next = 0;  // the ranks before this one have set their marks
  const auto all_there = [&] {
    while (next < states_.size() && mark_of(*states_[next]) >= count_) ++next;
    return next == states_.size();
  };
  Bell& bell = states_[0]->bell;
  if (all_there()) return bell.ring();  // this rank came last, so it wakes the others
  if (wait_awake(states_.size(), all_there)) return;
  const auto begin = Clock::now();
  const double timeout = limits_.timeout_seconds;
  while (!bell.sleep_unless(all_there, limits_.sleep_seconds)) {
    check(!given_up_, "given up after an error");
    if (timeout > 0 && limits_.world != nullptr) limits_.world->note_wait(names_[next]);
    if (timeout > 0 && seconds_since(begin) > timeout) fail_late(mark_of, what);
  }
}

template <class MarkOf>
void Meeting::fail_late(MarkOf mark_of, const char* what) const {
  std::string late;
  for (size_t r = 0; r < states_.size(); ++r) {
    if (mark_of(*states_[r]) >= count_) continue;
    late += late.empty() ? "" : ", ";
    late += limits_.world == nullptr ? names_[r]
                                     : limits_.world->late_name(names_[r], limits_.timeout_seconds);
  }
  throw Error(concat("collective number ", count_, ", ", to_string(call_of(rank_)), ": after ",
                     limits_.timeout_seconds, " s ", late, " did not ", what));
}

void Meeting::enter(const Call& call) {
  ++count_;
  maybe_delay("enter: before the call is written");
  states_[rank_]->entries[count_ % 2].call = call;
  meet(
      [this](RankState & state) -> auto& { return state.entries[count_ % 2].number; }, "arrive");
  maybe_delay("enter: before the calls are read");
  for (size_t r = 0; r < states_.size(); ++r) {
    require_same_call(count_, names_, rank_, call, r, call_of(r));
  }
}

const Call& Meeting::call_of(size_t rank) const { return states_[rank]->entries[count_ % 2].call; }

void Meeting::leave() {
  meet(
      [](RankState & state) -> auto& { return state.left; }, "finish");
}

}  // namespace ladder
