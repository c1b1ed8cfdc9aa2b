// Prints CUDA_MODULE_LOADING as it is once the ranks have joined: see
// tests/system/02_ddp_device_test.cc.
#include <cstdio>
#include <cstdlib>

#include "common/comm/job.h"

int main() {
  ladder::Job job;
  job.join();
  const char* const value = std::getenv("CUDA_MODULE_LOADING");
  std::printf("kernels: %s\n", value == nullptr ? "not said" : value);
}
