// Lessons on the device of this build, compared with lesson 01 on the CPU.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/catch.h"
#include "tests/common/comm/devices.h"
#include "tests/lessons/sharded.h"

namespace ladder::testing {

inline RunConfig on_device(RunConfig config, DeviceType device) {
  config.device = device;
  return config;
}

// The record of a lesson's run on the group: on rank 0 it is compared with the oracle, and on all
// ranks the memory with what was predicted.
template <class T>
Record checked_run(const Record& oracle, const RunConfig& config, Communicator& group,
                   MemorySource* registered, const typename T::Flags& flags = {}) {
  INFO(T::kLesson.info.name);
  Record record = record_run<T>(config, group, registered, flags);
  if (group.rank() == 0) {
    require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
  }
  CHECK(record.device_peak == record.prediction.device);
  CHECK(record.host_peak == record.prediction.host);
  return record;
}

// The same on the ranks of `all`, as a group with a ledger of its own; what a step communicates is
// as predicted too.
template <class T>
void check_run_and_traffic(const Record& oracle, const RunConfig& config, Communicator& all,
                           MemorySource* registered, const typename T::Flags& flags = {}) {
  const auto group = all.split(0);
  const Record record = checked_run<T>(oracle, config, *group, registered, flags);
  for (const auto& [key, predicted] : record.prediction.step) {
    INFO(name_of(key));
    CHECK(record.communicated.at(key) == predicted.times(kSteps));
  }
}

// Call body(device, all, registered) with all ranks on the device of this build: staged, in pieces
// of so many bytes, and by NCCL, from registered memory. Without a device they say that they skip.
template <class Body>
void run_staged(Body body, size_t staging_bytes = 10'000) {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, staging_bytes);
  body(*device, *all, static_cast<MemorySource*>(nullptr));
}
template <class Body>
void run_by_nccl(Body body) {
  const auto device = device_for_nccl();
  if (!device) return;
  testing::Ranks ranks(*device);
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  body(*device, *all, static_cast<MemorySource*>(&memory));
}

// In bf16 and fp16: after the first step the gradients of a lesson's run on the group are those of
// as many ranks on the CPU, but for what rounding does to sums in another order.
template <class T>
void require_cpu_gradients(const RunConfig& config, Communicator& group, MemorySource* registered,
                           const typename T::Flags& flags = {}) {
  INFO(T::kLesson.info.name << " in " << name_of(config.dtype));
  const Record record = record_run<T>(config, group, registered, flags);
  Groups groups(group.size());  // of MPI
  const Record expected =
      record_run<T>(on_device(config, DeviceType::cpu), *groups.group, &groups.node_memory, flags);
  CHECK(record.device_peak == record.prediction.device);
  if (group.rank() != 0) return;
  // Sums in fp32 differ by some 2^-22 of their size. Now and then that moves a number across the
  // middle of two neighbours, and it is rounded the other way: 4 u at most, where u is 2^-9 (bf16)
  // or 2^-12 (fp16). On tensor cores, attention also rounds what the CPU does not: probabilities
  // forward, these and the gradients of scores backward, 6 roundings in two blocks. What is
  // computed of such numbers is rounded anew. In the worst case both ways through two blocks and
  // back have their own roundings, the CPU's 40 and the device's 46: a random walk of sqrt(86) u of
  // a number's size. A gradient sums over rows; seen against its largest element that leaves room
  // for those that cancel.
  const double bound = std::sqrt(40 + 46) * typical_rounding(config.dtype);
  for (const auto& [name, values] : expected.tensors[0]) {
    if (!name.starts_with("grad.")) continue;
    const std::vector<double>& got = record.tensors[0].at(name);
    REQUIRE(got.size() == values.size());
    INFO(name);
    CHECK(tensor_error(expected, record, name) <= bound);
  }
}

}  // namespace ladder::testing
