// --recompute and --offload-activations on the device of this build, with ZeRO-3: the bits of none
// there.

#include <set>

#include "common/comm/one_rank.h"
#include "common/virtual/dry_run.h"
#include "common/virtual/lazy_memory.h"
#include "lessons/05_zero3/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/device.h"
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

// A device on which nothing runs. It notes the streams of copies to the host and back.
struct CopiesOfDevice : DryRun {
  StreamId add_stream(DeviceType) override { return ++num_streams; }
  void copy(StreamId stream, const TensorView& to, const ConstTensorView& from) override {
    if (to.device() == from.device()) return;
    (to.device() == DeviceType::cpu ? to_host : to_device).insert(stream);
  }
  StreamId num_streams = 0;
  std::set<StreamId> to_host, to_device;
};

TEST_CASE("activations go to the host and come back on streams of their own") {
  CopiesOfDevice device;
  RunConfig config = on_device(equivalence_config(DType::fp32, 12), cuda_device_of_build());
  config.model.num_layers = 5;
  config.offload_activations = true;
  Communicator alone(std::make_unique<OneRank>(config.device));
  LazyMemory memory;
  Session<Zero3Trainer> session(config, alone, nullptr, {}, &memory);
  session.trainer->step();
  device.to_host.erase(session.stream.simulated());  // which loads tokens
  device.to_device.erase(session.stream.simulated());
  REQUIRE(device.to_host.size() == 1);
  REQUIRE(device.to_device.size() == 1);
  CHECK(device.to_host != device.to_device);
}

}  // namespace
}  // namespace ladder
