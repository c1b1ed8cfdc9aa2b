#include "common/train/run/interruptions.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "common/comm/launcher.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// A handler only touches atomics that take no lock, and calls what is async-signal-safe.
std::atomic<int> first_signal = 0;
std::atomic<int64_t> first_time = 0;  // 0: there is no signal yet
std::atomic<unsigned> grace_seconds = 1;
std::atomic<bool> is_open_mpi = false;  // whether its mpirun has started this rank
static_assert(decltype(first_time)::is_always_lock_free);

int64_t now() { return Clock::now().time_since_epoch().count(); }

void end_by(int number) {
  signal(number, SIG_DFL);
  kill(getpid(), number);
}

// Open MPI ends the ranks of a run that has failed: there is nothing to wait for. It is their
// parent.
void on_signal(int number, siginfo_t* info, void*) {
  if (number == SIGTERM && is_open_mpi && info->si_pid == getppid()) return end_by(number);
  constexpr Clock::duration kToldTwice = std::chrono::milliseconds(500);
  int none = 0;
  if (first_signal.compare_exchange_strong(none, number)) {
    first_time = now();
    alarm(grace_seconds);
  } else if (first_time != 0 && now() - first_time > kToldTwice.count()) {
    end_by(number);
  }
}

void on_alarm(int) { end_by(first_signal); }

void set_handlers() {
  struct sigaction action = {};
  // On a stack of its own: what computes products may keep values below the stack's end.
  static std::array<std::byte, 64 << 10> stack;
  const stack_t alternate = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  sigaltstack(&alternate, nullptr);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = on_signal;
  for (const int number : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    struct sigaction before;
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

}  // namespace

Interruptions::Interruptions(const CheckpointConfig& config, Job& job)
    : config_(config),
      keeps_time_(job.rank() == 0 && config.every_seconds > 0),
      agreed_(job.world()) {
  grace_seconds = config.grace_seconds;
  is_open_mpi = find_launch().is_open_mpi;
  set_handlers();
}

bool Interruptions::before_step(int64_t step) {
  if (signal_ != 0) return false;
  if (first_signal != 0) agreed_.name(AgreedSteps::kEnd, step, first_signal);
  if (keeps_time_ && seconds_since(saved_) >= config_.every_seconds) {
    agreed_.name(AgreedSteps::kSave, step, 0);
    saved_ = Clock::now();
  }
  return true;
}

bool Interruptions::after_step(int64_t step) {
  step_ = step;
  signal_ = agreed_.find(AgreedSteps::kEnd, step).value_or(0);
  return signal_ != 0 || agreed_.find(AgreedSteps::kSave, step).has_value();
}

std::string Interruptions::text() const {
  return concat(config_.path.empty() ? "ended after" : "saved", " step ", step_, "\n");
}

}  // namespace ladder
