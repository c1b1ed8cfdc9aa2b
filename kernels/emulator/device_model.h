// The GPU that the emulator is, as far as its limits go. A launch that asks for more than the GPU
// has fails as on that GPU.
#pragma once

#include <cstddef>
#include <string_view>

namespace ladder::emulator {

struct Extents {
  size_t x, y, z;
};

struct DeviceModel {
  std::string_view name;
  int major, minor;           // compute capability
  size_t shared_bytes_optin;  // shared memory of a thread block, after cudaFuncSetAttribute
  int multiprocessors;        // the emulator has one; kernels divide their work by this number
  size_t cache_bytes;         // of the cache (L2) that all multiprocessors share
  size_t threads;             // of a thread block
  size_t registers;           // of a thread block
  Extents block, grid;        // the largest of each dimension
};

// Returns the model of this process: what the environment variable LADDER_EMULATOR_DEVICE names,
// a100 (the default, which has less), h100, b200 or v100. Throws UserError if it names another one.
const DeviceModel& device_model();

// Returns the model with this name. REQUIRES: there is one.
const DeviceModel& model_named(std::string_view name);

// Sets the model and, at the end, the one from before. REQUIRES: the name is one of a model.
class WithDeviceModel {
 public:
  explicit WithDeviceModel(std::string_view name);
  ~WithDeviceModel();
  WithDeviceModel(const WithDeviceModel&) = delete;
  WithDeviceModel& operator=(const WithDeviceModel&) = delete;

 private:
  DeviceModel before_;
};

}  // namespace ladder::emulator
