#include "kernels/emulator/launch.h"

#include <utility>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/execution.h"
#include "kernels/emulator/fault.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/registers.h"
#include "kernels/emulator/stacks.h"
#include "kernels/emulator/streams.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

// Rounded so that the memory of a thread block begins on a boundary for every type.
size_t shared_bytes = 0;

cudaError_t check_shape(const KernelCall& call) {
  const DeviceModel& gpu = device_model();
  const auto fits = [](const dim3& extents, const Extents& most) {
    const auto one = [](size_t extent, size_t limit) { return extent > 0 && extent <= limit; };
    return one(extents.x, most.x) && one(extents.y, most.y) && one(extents.z, most.z);
  };
  const size_t threads = size_t{call.block.x} * call.block.y * call.block.z;
  if (!fits(call.block, gpu.block) || !fits(call.grid, gpu.grid) || threads > gpu.threads) {
    return cudaErrorInvalidConfiguration;
  }
  const size_t registers = registers_of(call.name, gpu);
  if (registers_of_block(threads, registers) > gpu.registers) {
    return cudaErrorLaunchOutOfResources;
  }
  return call.shared_bytes <= shared_limit(call.function) ? cudaSuccess : cudaErrorInvalidValue;
}

void run(const KernelCall& call) {
  call.check_arguments();
  explain_faults();
  shared_bytes = (call.shared_bytes + 15) / 16 * 16;
  const DeviceAccess access;
  Execution(call).run();
  const std::string stray_write = Arena::instance().find_stray_write();
  if (!stray_write.empty()) throw Error(concat("kernel ", call.name, ": ", stray_write));
}

}  // namespace

void* dynamic_shared() { return static_cast<char*>(dynamic_shared_end()) - shared_bytes; }

void check_pointer(std::string_view kernel, size_t index, const void* pointer) {
  if (pointer == nullptr || Arena::instance().holds(pointer, 0) || is_pinned(pointer)) return;
  throw Error(concat("kernel ", kernel, ": argument ", index + 1, " points to ", pointer,
                     Arena::instance().contains(pointer) ? ", where no device memory is allocated"
                                                         : ", which is host memory"));
}

cudaError_t launch(KernelCall call, cudaStream_t stream) {
  if (!running_kernel_name().empty()) fail("a kernel cannot launch a kernel");
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  const cudaError_t status = check_shape(call);
  if (status != cudaSuccess) return note(status);
  give(stream, [call = std::move(call)] { run(call); });
  return cudaSuccess;
}

}  // namespace ladder::emulator
