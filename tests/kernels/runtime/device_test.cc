#include "kernels/runtime/device.h"
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

}  // namespace
}  // namespace ladder
