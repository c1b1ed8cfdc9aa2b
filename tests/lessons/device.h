// Lessons on the device of this build, compared with lesson 01 on the CPU.
#pragma once

#include <catch2/catch.hpp>

#include "tests/common/comm/devices.h"
#include "tests/lessons/sharded.h"

namespace ladder::testing {

inline RunConfig on_device(RunConfig config, DeviceType device) {
  config.device = device;
  return config;
}

// The record of a lesson's run on the group: on rank 0 it is compared with the oracle, and on all
// ranks the memory with what was predicted.
template <Trainer T>
Record checked_run(const Record& oracle, const RunConfig& config, Communicator& group,
                   MemorySource* registered, const typename T::Flags& flags = {}) {
  INFO(T::kLesson.name);
  Record record = record_run<T>(config, group, registered, flags);
  if (group.rank() == 0) {
    require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
  }
  CHECK(record.device_peak == record.prediction.device);
  CHECK(record.host_peak == record.prediction.host);
  return record;
}

}  // namespace ladder::testing
