#include "kernels/runtime/device_wait.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

constexpr auto kBetweenChecks = std::chrono::milliseconds(10);

struct Checks {
  std::shared_mutex mutex;
  std::list<std::pair<const WaitCheck*, std::function<void()>>> all;
  std::atomic<size_t> count = 0;
};

Checks& checks() {
  static auto* const all = new Checks;  // never destroyed: static objects may wait
  return *all;
}

}  // namespace

WaitCheck::WaitCheck(std::function<void()> check) {
  const std::lock_guard lock(checks().mutex);
  checks().all.emplace_back(this, std::move(check));
  ++checks().count;
}

WaitCheck::~WaitCheck() {
  const std::lock_guard lock(checks().mutex);
  checks().all.remove_if([this](const auto& entry) { return entry.first == this; });
  --checks().count;
}

void wait_with_checks(const std::function<bool()>& has_passed, const std::function<void()>& wait) {
  if (checks().count == 0) return wait();
  // It does not sleep: a step waits for its device several times.
  for (Time next = Clock::now(); !has_passed(); std::this_thread::yield()) {
    if (Clock::now() < next) continue;
    const std::shared_lock lock(checks().mutex);
    for (const auto& [owner, check] : checks().all) check();
    next = Clock::now() + kBetweenChecks;
  }
}

}  // namespace ladder
