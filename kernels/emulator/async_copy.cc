#include "kernels/emulator/async_copy.h"

#include <cstdint>
#include <cstring>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/execution.h"
#include "kernels/emulator/observers.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {

void AsyncCopies::add(void* to, const void* from, size_t bytes) {
  for (const void* const address : {static_cast<const void*>(to), from}) {
    if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
      throw Error(concat("cp.async of ", bytes, " bytes: the address of the ",
                         address == to ? "destination" : "source", ", ", address,
                         ", is not a multiple of ", bytes));
    }
  }
  fill_undefined(to, bytes);
  copies_.push_back({to, from, bytes, num_groups_});
}

void AsyncCopies::wait(size_t in_flight, const void* return_address) {
  size_t ended = 0;
  for (; ended < copies_.size() && copies_[ended].group + in_flight < num_groups_; ++ended) {
    const Copy& copy = copies_[ended];
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, copy.bytes);
    } else {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
    const Access write = {reinterpret_cast<std::uintptr_t>(copy.to), copy.bytes, AccessKind::write,
                          return_address, running_thread};
    tell_observers([&](Observer& observer) { observer.copy_ends(write); });
  }
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(ended));
}

void AsyncCopies::clear() {
  copies_.clear();
  num_groups_ = 0;
}

}  // namespace ladder::emulator
