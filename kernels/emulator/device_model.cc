#include "kernels/emulator/device_model.h"

#include <array>
#include <cstdlib>

#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

// CUDA C++ Programming Guide, technical specifications per compute capability; NVIDIA's white
// papers of the A100 and the H100 (SXM).
constexpr std::array<DeviceModel, 2> kModels = {{
    {"a100", 8, 0, 163 << 10, 108},
    {"h100", 9, 0, 227 << 10, 132},
}};

DeviceModel find_model(std::string_view name) {
  for (const DeviceModel& model : kModels) {
    if (model.name == name) return model;
  }
  throw UserError(concat("LADDER_EMULATOR_DEVICE=", name, ": expected a100, the default, or h100"));
}

DeviceModel& model() {
  static DeviceModel the_model = [] {
    const char* const name = std::getenv("LADDER_EMULATOR_DEVICE");
    return name == nullptr ? kModels.front() : find_model(name);
  }();
  return the_model;
}

}  // namespace

const DeviceModel& device_model() { return model(); }

WithDeviceModel::WithDeviceModel(std::string_view name) : before_(model()) {
  model() = find_model(name);
}
WithDeviceModel::~WithDeviceModel() { model() = before_; }

}  // namespace ladder::emulator
