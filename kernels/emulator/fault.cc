#include "kernels/emulator/fault.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "kernels/emulator/execution.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

struct Range {
  std::atomic<std::uintptr_t> begin = 0, end = 0;
};

std::array<Range, 3> fences;  // by Fence
struct sigaction previous;    // what SIGSEGV did before
std::atomic<bool (*)(std::uintptr_t, bool)> filter = nullptr;

// A line of text that is put together without allocating memory, which a signal handler must not
// do.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t length = std::min(text.size(), sizeof text_ - length_);
    std::memcpy(text_ + length_, text.data(), length);
    length_ += length;
    return *this;
  }
  Line& number(std::uintptr_t value, unsigned base) {
    char digits[24];
    size_t at = sizeof digits;
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return *this << std::string_view(digits + at, sizeof digits - at);
  }
  Line& operator<<(uint3 index) {
    *this << "(";
    number(index.x, 10) << ", ";
    number(index.y, 10) << ", ";
    return number(index.z, 10) << ")";
  }
  void write_to_stderr() {
    *this << "\n";
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text_, length_);
  }

 private:
  char text_[1024];
  size_t length_ = 0;
};

void explain(Fence fence, std::uintptr_t address) {
  Line line;
  line << "CUDA emulator: ";
  const std::string_view kernel = running_kernel_name();
  if (!kernel.empty()) {
    line << "kernel " << kernel << ", block " << coordinates.block << ", thread "
         << coordinates.thread << ": ";
  }
  if (fence == Fence::thread_stacks) {
    line << "the stack of the thread is full (local arrays too large, or endless recursion)";
  } else if (fence == Fence::dynamic_shared) {
    line << "access behind the end of the dynamic shared memory that the launch asked for";
  } else if (!kernel.empty()) {
    line << "access to 0x";
    line.number(address, 16) << ", where no device memory is allocated";
  } else {
    line << "host code reads or writes device memory, at 0x";
    line.number(address, 16) << ": copy it to the host first (ladder::copy or cudaMemcpyAsync)";
  }
  line.write_to_stderr();
}

// Returns whether the access that faulted was a write.
bool is_write(const mcontext_t& machine) {
#ifdef __x86_64__
  return (machine.gregs[REG_ERR] & 2) != 0;  // bit 1 of the processor's error code
#else
  // Records follow each other, up to one with the magic 0. One of them has the syndrome register,
  // whose bit 6 says it.
  const unsigned char* at = machine.__reserved;
  for (_aarch64_ctx head; std::memcpy(&head, at, sizeof head), head.magic != 0; at += head.size) {
    if (head.magic != ESR_MAGIC) continue;
    esr_context syndrome;
    std::memcpy(&syndrome, at, sizeof syndrome);
    return (syndrome.esr & 1 << 6) != 0;
  }
  return false;
#endif
}

// Explains the fault if a fence was hit. Then it restores the earlier action and returns, so that
// the same instruction faults again and the earlier action is taken. It explains only once, in case
// the earlier action restores this one.
void on_fault(int signal, siginfo_t* info, void* context) {
  bool (*const allows)(std::uintptr_t, bool) = filter.load();
  const auto fault = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool writes = is_write(static_cast<ucontext_t*>(context)->uc_mcontext);
  if (info->si_code > 0 && allows != nullptr && allows(fault, writes)) return;
  static std::atomic_flag seen = ATOMIC_FLAG_INIT;
  if (seen.test_and_set()) {
    ::signal(signal, SIG_DFL);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (size_t i = 0; i < fences.size() && info->si_code > 0; ++i) {
    if (address >= fences[i].begin && address < fences[i].end) {
      explain(static_cast<Fence>(i), address);
    }
  }
  sigaction(signal, &previous, nullptr);
  if (info->si_code <= 0) raise(signal);  // sent by somebody: it would not come again
}

void install_handler() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction existing {};
  sigaction(SIGSEGV, nullptr, &existing);
  if ((existing.sa_flags & SA_SIGINFO) != 0 && existing.sa_sigaction == on_fault) return;
  previous = existing;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, nullptr) != 0) fail("cannot install a handler for SIGSEGV");
}

// Takes the stack away from the OS before it is freed.
struct SignalStack {
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<char[]> memory;

  SignalStack() {
    stack_t existing;
    if (sigaltstack(nullptr, &existing) == 0 && (existing.ss_flags & SS_DISABLE) == 0) return;
    memory = std::make_unique<char[]>(kBytes);
    const stack_t mine{.ss_sp = memory.get(), .ss_flags = 0, .ss_size = kBytes};
    if (sigaltstack(&mine, nullptr) != 0) fail("sigaltstack failed");
  }
  ~SignalStack() {
    if (memory == nullptr) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
};

}  // namespace

void set_fence(Fence fence, const void* begin, size_t bytes) {
  Range& range = fences[static_cast<size_t>(fence)];
  range.begin = reinterpret_cast<std::uintptr_t>(begin);
  range.end = range.begin + bytes;
}

void set_fault_filter(bool (*allows)(std::uintptr_t address, bool writes)) { filter = allows; }

void explain_fault(std::uintptr_t address, const char* what, const char* which) {
  Line line;
  line << "CUDA emulator: host code " << what << which << ", at 0x";
  line.number(address, 16);
  line.write_to_stderr();
}

void explain_faults() {
  install_handler();
  thread_local const SignalStack stack;
}

}  // namespace ladder::emulator
