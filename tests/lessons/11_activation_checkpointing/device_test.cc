// --recompute on the device of this build, with ZeRO-3: the bits of none there.
#include <catch2/catch.hpp>

#include "lessons/05_zero3/trainer.h"
#include "tests/lessons/device.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("on a device: the bits of none, and memory as predicted") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  for (DType dtype : {DType::fp32, DType::bf16}) {
    RunConfig config = on_device(equivalence_config(dtype, 12), *device);
    std::optional<Record> none;
    for (const char* mode : {"none", "attention", "every-2"}) {
      INFO(name_of(dtype) << ", --recompute " << mode);
      config.recompute = parse_recompute(mode);
      const auto all = staged_world(ranks, 10'000);
      const Record record = record_run<Zero3Trainer>(config, *all, nullptr);
      CHECK(record.device_peak == record.prediction.device);
      if (!none) none = record;
      if (all->rank() == 0) require_none(differences(*none, record, {}, config.optimizer));
    }
  }
}

}  // namespace
}  // namespace ladder
