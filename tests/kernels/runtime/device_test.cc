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

TEST_CASE("--device auto says why it takes the CPU") {
  const Gpus good = {.count = 2, .name = "NVIDIA H100", .has_code = true};
  CHECK_FALSE(why_cpu(DeviceType::cuda, good, true));
  const auto says = [](const std::optional<std::string>& why, const std::string& text) {
    REQUIRE(why);
    CHECK_THAT(*why, ContainsSubstring(text));
  };
  says(why_cpu(DeviceType::cuda, {.count = 1, .name = "Tesla V100"}, true), "not for Tesla V100");
  says(why_cpu(DeviceType::cuda, {.why = "unspecified launch failure"}, true),
       "finds no GPU: unspecified launch failure");
  says(why_cpu(DeviceType::emulator, {}, true), "has no CUDA");
  CHECK(why_cpu(DeviceType::emulator, {}, false) == "");  // nothing else to choose
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
