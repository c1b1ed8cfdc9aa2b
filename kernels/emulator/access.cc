#include "kernels/emulator/access.h"

#include <algorithm>

#include "kernels/emulator/execution.h"
#include "kernels/emulator/observers.h"

namespace ladder::emulator {

std::vector<Observer*>& observers() {
  static auto* const all = new std::vector<Observer*>;
  return *all;
}

void attach(Observer& observer) { observers().push_back(&observer); }
void detach(Observer& observer) { std::erase(observers(), &observer); }

void report_access(const void* address, size_t bytes, size_t alignment, AccessKind kind,
                   const void* return_address) {
  const Access access = {reinterpret_cast<std::uintptr_t>(address),
                         bytes,
                         alignment,
                         kind,
                         return_address,
                         running_thread()};
  for (Observer* observer : observers()) observer->access(access);
}

void report_fence(bool device) {
  const size_t thread = running_thread();
  tell_observers([&](Observer& observer) { observer.fence(device, thread); });
}

}  // namespace ladder::emulator
