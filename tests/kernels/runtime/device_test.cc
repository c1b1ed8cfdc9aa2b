#include "kernels/runtime/device.h"

#include <random>

#include "kernels/emulator/device_model.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/gpu.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("a driver is too old if its major version of CUDA is") {
  CHECK(driver_warning(12040, 13000) ==
        "the GPU's driver is for CUDA 12.4 and this build needs 13.0; install a newer driver");
  CHECK(driver_warning(13000, 13020).empty());
  CHECK(driver_warning(14000, 13000).empty());
  CHECK(driver_warning(0, 13000).empty());  // no driver at all
  CHECK(description_of(DeviceType::cpu) == "cpu");
}

TEST_CASE("code runs on GPUs of its kind, and PTX on newer ones") {
  std::mt19937 random(9);
  const auto draw = [&](unsigned from, unsigned to) {
    return static_cast<int>(from + random() % (to - from));
  };
  for (int round = 0; round < 2000; ++round) {
    const int major = draw(3, 13), minor = draw(0, 10);
    std::string code;
    bool expected = false;
    for (int i = draw(1, 5); i > 0; --i) {
      const int own_major = draw(3, 13), own_minor = draw(0, 10);
      const bool is_ptx = draw(0, 3) == 0;
      const bool is_older = own_major < major || (own_major == major && own_minor <= minor);
      expected = expected || (is_older && (is_ptx || own_major == major));
      code += concat(code.empty() ? "" : ",", is_ptx ? "compute_" : "sm_", own_major, own_minor);
    }
    CAPTURE(code, major, minor);
    CHECK(runs_on(code, major, minor) == expected);
  }
  CHECK_FALSE(runs_on("", 9, 0));
}

TEST_CASE("--device auto says what it takes and why") {
  const Gpus good = {.count = 2, .error = "", .name = "NVIDIA H100", .major = 9, .minor = 0};
  const auto says = [](const ChosenDevice& chosen, DeviceType device, const std::string& why) {
    CHECK(chosen.device == device);
    CHECK_THAT(chosen.why, ContainsSubstring(why));
  };
  says(choose_device(DeviceType::cuda, good, true), DeviceType::cuda, "auto: 2 GPUs are visible");
  Gpus old = good;
  old.name = "Tesla V100";
  old.major = 7;
  says(choose_device(DeviceType::cuda, old, true), DeviceType::cpu,
       "not for the first GPU, Tesla V100, compute capability 7.0");
  const Gpus failed = {.count = 0, .error = "unspecified launch failure", .name = ""};
  says(choose_device(DeviceType::cuda, failed, true), DeviceType::cpu,
       "finds no GPU: unspecified launch failure");
  says(choose_device(DeviceType::emulator, {}, true), DeviceType::cpu, "has no CUDA");
  CHECK(choose_device(DeviceType::emulator, {}, false).why.empty());  // nothing else to choose
}

TEST_CASE("a GPU that the build has no code for is refused before anything runs there") {
  if (cuda_device_of_build() != DeviceType::emulator) return;
  for (const char* const name : {"a100", "h100", "b200"}) {
    const emulator::WithDeviceModel model(name);
    CAPTURE(name);
    CHECK_NOTHROW(require_code_for(DeviceType::emulator));
  }
  const emulator::WithDeviceModel model("v100");
  CHECK_NOTHROW(require_code_for(DeviceType::cpu));
  CHECK_THROWS_WITH(require_code_for(DeviceType::emulator),
                    ContainsSubstring("code for sm_80,sm_90,compute_90") &&
                        ContainsSubstring("compute capability 7.0") &&
                        ContainsSubstring("CUDA_VISIBLE_DEVICES"));
}

}  // namespace
}  // namespace ladder
