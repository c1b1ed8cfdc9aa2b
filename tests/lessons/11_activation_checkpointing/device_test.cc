// --recompute and --offload-activations on the device of this build, with ZeRO-3: the bits of none
// there.

#include "tests/lessons/device.h"
#include "lessons/05_zero3/trainer.h"
#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("on a device: the bits of none, and memory as predicted") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  for (DType dtype : {DType::fp32, DType::bf16}) {
    RunConfig config = on_device(equivalence_config(dtype, 12), *device);
    config.model.num_layers = 5;
    std::optional<Record> none;
    Sample sample(2, dtype == DType::fp32 ? 1 : 2);
    using Mode = std::pair<const char*, bool>;
    for (const auto& [mode, offload] : {Mode("none", false),
                                        {"attention", false},
                                        {"every-2", false},
                                        {"none", true},
                                        {"mlp", true}}) {
      if (none && !sample.takes()) continue;
      INFO(name_of(dtype) << ", --recompute " << mode << ", offloaded: " << offload);
      config.recompute = parse_recompute(mode);
      config.offload_activations = offload;
      const auto all = staged_world(ranks, 10'000);
      const Record record = record_run<Zero3Trainer>(config, *all, nullptr);
      CHECK(record.device_peak == record.prediction.device);
      CHECK(record.host_peak == record.prediction.host);
      if (!none) none = record;
      if (all->rank() == 0) require_none(differences(*none, record, {}, config.optimizer));
    }
  }
}

}  // namespace
}  // namespace ladder
