// The part of Execution that is about warps.
#include <array>
#include <bit>

#include "kernels/emulator/execution.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/tensor_core.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr std::uint64_t kUndefined = ~std::uint64_t{0};  // NaN as a float and as a double

bool is_shuffle(WarpOperation operation) {
  return operation >= WarpOperation::shfl && operation <= WarpOperation::shfl_xor;
}

// Returns the lane that a shuffle reads.
size_t source_of(const WarpCall& call, size_t lane) {
  const int width = call.width, self = static_cast<int>(lane);
  const int first = self & ~(width - 1);  // of the own group of `width` lanes
  const auto within = [&](int source, bool inside) {
    return static_cast<size_t>(inside ? source : self);
  };
  switch (call.operation) {
    case WarpOperation::shfl:
      return static_cast<size_t>(first + (call.argument & (width - 1)));
    case WarpOperation::shfl_up:
      return within(self - call.argument, call.argument <= self - first);
    case WarpOperation::shfl_down:
      return within(self + call.argument, call.argument < first + width - self);
    case WarpOperation::shfl_xor:
      return within(self ^ call.argument, (self ^ call.argument) < first + width);
    default:
      return lane;
  }
}

}  // namespace

size_t Execution::warp_begin() const {
  return static_cast<size_t>(running_ - threads_.data()) / kWarpSize * kWarpSize;
}

size_t Execution::lane() const {
  return static_cast<size_t>(running_ - threads_.data()) % kWarpSize;
}

void Execution::check_call(const WarpCall& call) const {
  const auto complain = [&](const auto&... parts) {
    throw Error(
        concat("in ", name_of(call.operation), " at ", text_of(call.where), ": ", parts...));
  };
  const auto hex = [](unsigned mask) { return concat("0x", std::hex, mask); };
  if ((call.mask >> lane() & 1) == 0) {
    complain("the mask ", hex(call.mask), " does not name the calling lane, ", lane());
  }
  if (warp_begin() + std::bit_width(call.mask) > num_threads_) {
    complain("the mask ", hex(call.mask),
             " names lanes that the block does not have: this warp has ",
             num_threads_ - warp_begin());
  }
  if (call.width < 1 || call.width > 32 || !std::has_single_bit(unsigned(call.width))) {
    complain("the width must be a power of two up to 32, not ", call.width);
  }
  if ((call.operation == WarpOperation::ldmatrix ||
       call.operation == WarpOperation::ldmatrix_trans) &&
      call.bits % 16 != 0) {
    complain("the address of a row is not a multiple of 16: ",
             reinterpret_cast<const void*>(call.bits));
  }
}

// Returns whether all lanes of the mask make the same call.
bool Execution::is_complete(const WarpCall& call) {
  if ((waiting_lanes() & call.mask) != call.mask) return false;
  for (unsigned left = call.mask; left != 0; left &= left - 1) {
    const WarpCall& other = thread_of_lane(static_cast<size_t>(std::countr_zero(left))).call;
    if (other.mask != call.mask || other.operation != call.operation ||
        !same_location(other.where, call.where)) {
      return false;
    }
  }
  return true;
}

// Gives every lane of the mask its result, and lets all of them go on.
void Execution::complete(const WarpCall& call) {
  tell_observers([&](Observer& observer) {
    observer.warp_operation(call.operation, warp_begin(), call.mask);
  });
  const Order order = shuffle_.next(kWarpSize);
  const auto for_each_lane = [&](auto f) {
    for (size_t i = 0; i < kWarpSize; ++i) {
      const size_t at = order[i];
      if ((call.mask >> at & 1) != 0) f(at, thread_of_lane(at));
    }
  };
  if (uses_registers(call.operation)) {
    std::array<const WarpCall*, kWarpSize> lanes;
    for (size_t i = 0; i < kWarpSize; ++i) lanes[i] = &thread_of_lane(i).call;
    complete_with_registers(lanes);
  }
  std::uint64_t votes = 0;
  for_each_lane([&](size_t at, const Thread& thread) { votes |= thread.call.bits << at; });
  for_each_lane([&](size_t at, Thread& thread) {
    if (!is_shuffle(call.operation)) {
      thread.result = votes;
      return;
    }
    const size_t source = source_of(thread.call, at);
    const bool defined = (call.mask >> source & 1) != 0;
    thread.result = defined ? thread_of_lane(source).call.bits : kUndefined;
  });
  waiting_lanes() &= ~call.mask;
  for_each_lane([&](size_t, Thread& thread) { go_on(thread); });
}

std::uint64_t Execution::warp_operation(const WarpCall& call) {
  const Unobserved here(abandoning_);
  check_call(call);
  Thread& self = *running_;
  self.call = call;
  waiting_lanes() |= 1u << lane();
  if (is_complete(call)) {
    complete(call);
    if (shuffle_.is_on()) wait(self);
  } else {
    self.state = ThreadState::at_warp;
    wait(self);
  }
  return self.result;
}

}  // namespace ladder::emulator
