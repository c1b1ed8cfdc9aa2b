// What kernels call, and those who observe them: see device.h, warp.h, tensor_core.h and access.h.
#include "kernels/emulator/execution.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/tensor_core.h"

namespace ladder::emulator {

void stop_thread(const std::string& why) { running_kernel("stop_thread").stop_thread(why); }
void note_mistake(size_t thread, const std::string& why) {
  running_kernel("note_mistake").note_mistake(thread, why);
}

void block_barrier(std::source_location where) {
  running_kernel("__syncthreads").block_barrier(where);
}

std::uint64_t warp_operation(const WarpCall& call) {
  return running_kernel(name_of(call.operation)).warp_operation(call);
}

void begin_copy(void* to, const void* from, std::size_t bytes) {
  if (is_observed) {
    const void* const location = __builtin_return_address(0);
    if (from != nullptr) report_access(from, bytes, AccessKind::read, location);
    report_access(to, bytes, AccessKind::write, location);
  }
  const Unobserved here;
  running_kernel("cp.async").copies().add(to, from, bytes);
  tell_observers([&](Observer& observer) { observer.copy_begins(to, bytes); });
}
void tell_row(const void* row) {
  report_access(row, 16, AccessKind::read, __builtin_return_address(0));
}
void commit_copies() { running_kernel("cp.async.commit_group").copies().commit(); }
void wait_for_copies(std::size_t in_flight) {
  const void* const location = __builtin_return_address(0);
  const Unobserved here;
  running_kernel("cp.async.wait_group").copies().wait(in_flight, location);
}

}  // namespace ladder::emulator
