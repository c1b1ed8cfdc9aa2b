#include "kernels/emulator/device_model.h"

#include <array>
#include <cstdlib>

#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

// CUDA C++ Programming Guide, technical specifications per compute capability; NVIDIA's white
// papers of the A100, the H100 (SXM), the V100 and the B200. Builds have no code for a V100, and
// for a B200 none but PTX.
constexpr Extents kBlock = {1024, 1024, 64}, kGrid = {0x7fffffff, 65535, 65535};
constexpr std::array<DeviceModel, 4> kModels = {{
    {"a100", 8, 0, 163 << 10, 108, 40 << 20, 1024, 65536, kBlock, kGrid},
    {"h100", 9, 0, 227 << 10, 132, 50 << 20, 1024, 65536, kBlock, kGrid},
    {"v100", 7, 0, 96 << 10, 80, 6 << 20, 1024, 65536, kBlock, kGrid},
    {"b200", 10, 0, 227 << 10, 148, 126 << 20, 1024, 65536, kBlock, kGrid},
}};

DeviceModel& model() {
  static DeviceModel the_model = [] {
    const char* const name = std::getenv("LADDER_EMULATOR_DEVICE");
    return name == nullptr ? kModels.front() : model_named(name);
  }();
  return the_model;
}

}  // namespace

const DeviceModel& model_named(std::string_view name) {
  for (const DeviceModel& model : kModels) {
    if (model.name == name) return model;
  }
  throw UserError(
      concat("LADDER_EMULATOR_DEVICE=", name, ": expected a100, the default, h100, b200 or v100"));
}

const DeviceModel& device_model() { return model(); }

WithDeviceModel::WithDeviceModel(std::string_view name) : before_(model()) {
  model() = model_named(name);
}
WithDeviceModel::~WithDeviceModel() { model() = before_; }

}  // namespace ladder::emulator
