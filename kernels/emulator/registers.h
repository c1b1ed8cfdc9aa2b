// How many registers a thread of each kernel has on a GPU. The compiler of CUDA decides, so the
// numbers are its own, written down in registers.txt; tests/kernels/cuda:machine_code_test compares
// them with what it makes of the kernels today.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/emulator/device_model.h"

namespace ladder::emulator {

// Returns a kernel's name without what compilers spell in their own ways and what all kernels
// share: namespaces, suffixes of numbers, the kernel's arguments. "forward_kernel<bfloat16, 64>" is
// that of `void ladder::cuda::(anonymous namespace)::forward_kernel<ladder::bfloat16, 64u>(...)`.
std::string short_kernel_name(std::string_view name);

// Returns the registers of a thread of the kernel on this GPU, or 0 if they are not known: kernels
// of tests, or a kernel that is newer than the table. `name` is as the compiler spells it.
size_t registers_of(std::string_view name, const DeviceModel& model);

// Returns how many registers a thread block takes of a multiprocessor's. A warp is given them in
// units of 256, and so are four warps at a time. [CUDA occupancy calculator]
constexpr size_t registers_of_block(size_t threads, size_t of_thread) {
  const size_t warps = (threads + 127) / 128 * 4;
  return warps * ((of_thread * 32 + 255) / 256 * 256);
}

// While it exists, a kernel has so many registers on every GPU, for tests.
class WithRegisters {
 public:
  WithRegisters(std::string_view short_name, size_t registers);
  ~WithRegisters();
  WithRegisters(const WithRegisters&) = delete;
  WithRegisters& operator=(const WithRegisters&) = delete;
};

}  // namespace ladder::emulator
