#include "kernels/emulator/access.h"

#include <algorithm>

#include "kernels/emulator/execution.h"
#include "kernels/emulator/observers.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {

void attach(Observer& observer) {
  check(observers.count < observers.all.size(), "too many observers of the emulator");
  observers.all[observers.count++] = &observer;
}

void detach(Observer& observer) {
  const auto end = observers.all.begin() + observers.count;
  observers.count = static_cast<size_t>(std::remove(observers.all.begin(), end, &observer) -
                                        observers.all.begin());
}

void report_access(const void* address, size_t bytes, AccessKind kind, const void* return_address) {
  const Unobserved here;
  const Access access = {reinterpret_cast<std::uintptr_t>(address), bytes, kind, return_address,
                         running_thread};
  tell_observers([&](Observer& observer) { observer.access(access); });
}

void report_fence(bool device) {
  const Unobserved here;
  tell_observers([&](Observer& observer) { observer.fence(device, running_thread); });
}

}  // namespace ladder::emulator
