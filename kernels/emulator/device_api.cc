// Devices, errors, attributes of kernels.
#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/streams.h"

namespace ladder::emulator {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Message {
  const char* name;
  const char* sentence;
};

Message message_of(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return {"cudaSuccess", "no error"};
    case cudaErrorInvalidValue:
      return {"cudaErrorInvalidValue", "invalid argument"};
    case cudaErrorMemoryAllocation:
      return {"cudaErrorMemoryAllocation", "out of memory"};
    case cudaErrorInvalidConfiguration:
      return {"cudaErrorInvalidConfiguration", "invalid grid, block or shared memory of a launch"};
    case cudaErrorInvalidMemcpyDirection:
      return {"cudaErrorInvalidMemcpyDirection", "invalid direction of a copy"};
    case cudaErrorInsufficientDriver:
      return {"cudaErrorInsufficientDriver", "no driver, or one that is too old"};
    case cudaErrorNoDevice:
      return {"cudaErrorNoDevice", "no device"};
    case cudaErrorInvalidDevice:
      return {"cudaErrorInvalidDevice", "invalid number of a device"};
    case cudaErrorInvalidResourceHandle:
      return {"cudaErrorInvalidResourceHandle", "not a live stream or event"};
    case cudaErrorNotReady:
      return {"cudaErrorNotReady", "not finished yet"};
    case cudaErrorLaunchOutOfResources:
      return {"cudaErrorLaunchOutOfResources", "too many registers requested for launch"};
    case cudaErrorIllegalAddress:
      return {"cudaErrorIllegalAddress", "a write to an address where nothing is allocated"};
  }
  return {"unrecognized error", "unrecognized error"};
}

struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, size_t> bytes;
};

SharedLimits& shared_limits() {
  static SharedLimits* const limits = new SharedLimits;
  return *limits;
}

}  // namespace

cudaError_t note(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

size_t shared_limit(const void* kernel) {
  SharedLimits& limits = shared_limits();
  const std::lock_guard lock(limits.mutex);
  const auto found = limits.bytes.find(kernel);
  return found == limits.bytes.end() ? kSharedBytes : std::max(kSharedBytes, found->second);
}

}  // namespace ladder::emulator

using namespace ladder::emulator;

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t status) { return message_of(status).name; }
const char* cudaGetErrorString(cudaError_t status) { return message_of(status).sentence; }

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return note(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return note(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return note(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return note(cudaErrorInvalidValue);
  if (device != 0) return note(cudaErrorInvalidDevice);
  *properties = {.name = "CUDA emulator",
                 .totalGlobalMem = Arena::instance().total(),
                 .sharedMemPerBlock = kSharedBytes,
                 .sharedMemPerBlockOptin = device_model().shared_bytes_optin,
                 .multiProcessorCount = device_model().multiprocessors,
                 .maxThreadsPerBlock = 1024,
                 .warpSize = 32,
                 .major = device_model().major,
                 .minor = device_model().minor};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (value == nullptr) return note(cudaErrorInvalidValue);
  const cudaError_t status = cudaGetDeviceProperties(&properties, device);
  if (status != cudaSuccess) return status;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return note(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize() {
  run_all_streams();
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (kernel == nullptr || attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<size_t>(value) > device_model().shared_bytes_optin) {
    return note(cudaErrorInvalidValue);
  }
  SharedLimits& limits = shared_limits();
  const std::lock_guard lock(limits.mutex);
  limits.bytes[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}
