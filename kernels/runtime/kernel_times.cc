#include "kernels/runtime/kernel_times.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/emulator/registers.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/cuda.h"
#include "kernels/runtime/launch_observer.h"

namespace ladder {
namespace {

// The kernels' times so far. All threads may use it.
class TimesTable {
 public:
  struct Total {
    std::string name;  // short: at the program's end regular expressions may be gone
    std::size_t launches = 0;
    double milliseconds = 0;
    bool has_begun = false;  // the first launch does not count
  };

  ~TimesTable() {
    const std::lock_guard lock(mutex_);
    if (!totals_.empty()) print();
  }
  Total& total_of(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto known = totals_.find(name);
    if (known != totals_.end()) return known->second;
    return totals_.emplace(std::string(name), Total{emulator::short_kernel_name(name)})
        .first->second;
  }
  void add(Total& total, double milliseconds) {
    const std::lock_guard lock(mutex_);
    if (total.has_begun) {
      total.launches += 1;
      total.milliseconds += milliseconds;
    }
    total.has_begun = true;
  }

 private:
  void print() const {
    std::vector<Total> rows;
    for (const auto& [name, total] : totals_) rows.push_back(total);
    std::ranges::sort(rows, std::ranges::greater(), &Total::milliseconds);
    std::fputs("LADDER_TIME_KERNELS: without the first launch of each kernel\n", stderr);
    std::fprintf(stderr, "%10s %8s %9s  %s\n", "ms", "launches", "us each", "kernel");
    for (const Total& total : rows) {
      if (total.launches == 0) continue;
      std::fprintf(stderr, "%10.3f %8zu %9.2f  %s\n", total.milliseconds, total.launches,
                   1e3 * total.milliseconds / static_cast<double>(total.launches),
                   total.name.c_str());
    }
  }

  std::mutex mutex_;
  std::map<std::string, Total, std::less<>> totals_;
};

class KernelTimes {
 public:
  static void start() { instance(); }
  KernelTimes() { launch_observer = &kObserver; }
  // At the program's end: every stream is idle or gone.
  ~KernelTimes() {
    launch_observer = nullptr;
    const std::lock_guard lock(mutex_);
    add_ended();
  }

 private:
  using Total = TimesTable::Total;
  struct Pending {
    Total* total = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
  };
  // When so many launches more have begun, the times of those that have ended are read: events are
  // a resource of the driver. Nobody waits, because a kernel may itself wait for a peer.
  static constexpr std::size_t kOften = 4096;

  static KernelTimes& instance();
  static const LaunchObserver kObserver;

  static cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    cuda_check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
    cuda_check(cudaEventRecord(event, stream), "cudaEventRecord");
    return event;
  }

  void begin(cudaStream_t stream, std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    running_[stream] = {&times_.total_of(name), record(stream)};
  }
  // A destructor calls this, so what it throws must wait for the next launch.
  void end(cudaStream_t stream) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      Pending& launch = running_[stream];
      launch.end = record(stream);
      pending_.push_back(launch);
      if (++num_launches_ % kOften == 0) add_ended();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  // Adds the times of the launches that have ended.
  void add_ended() {
    std::erase_if(pending_, [this](const Pending& launch) {
      float milliseconds = 0;
      if (cudaEventElapsedTime(&milliseconds, launch.begin, launch.end) != cudaSuccess) {
        cudaGetLastError();  // the next launch would report that an event has not been reached
        return false;
      }
      cudaEventDestroy(launch.begin);
      cudaEventDestroy(launch.end);
      times_.add(*launch.total, double{milliseconds});
      return true;
    });
  }

  std::mutex mutex_;
  std::map<cudaStream_t, Pending> running_;
  std::vector<Pending> pending_;
  std::size_t num_launches_ = 0;
  std::exception_ptr failure_;
  TimesTable times_;
};

KernelTimes& KernelTimes::instance() {
  static KernelTimes times;
  return times;
}

const LaunchObserver KernelTimes::kObserver = {
    [](cudaStream_t stream, std::string_view name) { instance().begin(stream, name); },
    [](cudaStream_t stream) { instance().end(stream); }};

bool is_asked() {
  static const char* const asked = std::getenv("LADDER_TIME_KERNELS");
  return asked != nullptr && std::strcmp(asked, "1") == 0;
}

}  // namespace

const bool TimedBody::is_timed_ = is_asked();

void TimedBody::add_time() const {
  static TimesTable times;
  std::string name = kernel_;
  if (cost_.m > 0) name += concat(" ", cost_.m, " x ", cost_.n, " x ", cost_.k);
  times.add(times.total_of(name), 1e3 * seconds_between(begin_, real_time()));
}

void time_kernels_if_asked() {
  if (!is_asked() || launch_observer != nullptr) return;
  cuda_check(cudaGetLastError(), "cudaGetLastError");  // CUDA begins before, and ends after this
  KernelTimes::start();
}

}  // namespace ladder
