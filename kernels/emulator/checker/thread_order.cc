#include "kernels/emulator/checker/thread_order.h"

#include <algorithm>

namespace ladder::emulator {

ThreadOrder::ThreadOrder() : known_(kThreads) {}

void ThreadOrder::launch_begins() {
  ++launch_;
  first_block_ = block_ + 1;
  releases_.clear();
}

void ThreadOrder::block_begins() {
  ++block_;
  time_ = 1;
  all_threads_ = 0;
  all_lanes_.fill(0);
  if (known_in_block_) std::ranges::fill(known_, Times{});
  known_in_block_ = false;
  fences_.clear();
  acquired_.clear();
}

// A mark has 22 bits for the time. After so many barriers it stands still, and everything counts as
// ordered.
void ThreadOrder::pass() {
  if (time_ < Mark::kMaxTime) ++time_;
}

void ThreadOrder::block_barrier() {
  all_threads_ = time_;
  pass();
}

void ThreadOrder::warp_barrier(size_t first, unsigned mask) {
  if (mask == 0xffffffff) {
    all_lanes_[first / kLanes] = time_;
    return pass();
  }
  known_in_block_ = true;
  Times joint{};
  const auto for_each_lane = [mask](auto f) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) != 0) f(lane);
    }
  };
  for_each_lane([&](size_t lane) {
    const Times& known = known_[first + lane];
    for (size_t i = 0; i < kLanes; ++i) joint[i] = std::max(joint[i], known[i]);
  });
  for_each_lane([&](size_t lane) { joint[lane] = time_; });
  for_each_lane([&](size_t lane) { known_[first + lane] = joint; });
  pass();
}

bool ThreadOrder::ordered_in_warp(const Mark& mark, size_t thread) const {
  if (mark.thread() / kLanes != thread / kLanes) return false;
  return mark.time() <= all_lanes_[thread / kLanes] ||
         mark.time() <= known_[thread][mark.thread() % kLanes];
}

void ThreadOrder::device_fence(size_t thread) {
  fences_[thread] = {block_, thread, time_, all_threads_};
  pass();  // what the thread does from now on is later
}

void ThreadOrder::atomic(size_t thread, std::uintptr_t address) {
  if (fences_.empty() && releases_.empty()) return;
  std::vector<Release>& all = releases_[address];
  for (const Release& release : all) {
    if (release.block != block_) acquired_.push_back({release, thread, time_});
  }
  if (const auto found = fences_.find(thread); found != fences_.end()) all.push_back(found->second);
}

bool ThreadOrder::ordered_by_fence(const Mark& mark, size_t thread) const {
  return std::ranges::any_of(acquired_, [&](const Acquire& acquire) {
    const Release& release = acquire.release;
    const bool before_fence = mark.thread() == release.thread ? mark.time() <= release.own
                                                              : mark.time() <= release.all_threads;
    const bool known = acquire.thread == thread || acquire.time <= all_threads_;
    return release.block == mark.block() && before_fence && known;
  });
}

}  // namespace ladder::emulator
