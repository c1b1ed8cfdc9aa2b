// Prints CUDA_MODULE_LOADING as it is once the ranks have joined, and which part of the machine's
// free memory this rank may take: see tests/system/02_ddp_device_test.cc.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/comm/job.h"
#include "kernels/runtime/device.h"

int main() {
  ladder::Job job;
  job.join();
  const char* const value = std::getenv("CUDA_MODULE_LOADING");
  job.connect({});
  const auto all = static_cast<double>(ladder::free_memory(ladder::DeviceType::cpu));
  std::printf("kernels: %s, memory: 1/%.0f\n", value == nullptr ? "not said" : value,
              std::round(all / static_cast<double>(job.free_device_memory(0))));
}
