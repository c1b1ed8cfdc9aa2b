// What lessons 07 to 09 have to pass alike: cases over groups of 1, 2, 4 and 8 ranks.
#pragma once

#include "tests/lessons/sharded.h"

namespace ladder::testing {

// Peak memory of every category and what each axis communicates are as predicted, to the byte, on
// every rank; and so is what the shared-memory path counts on the tensor axis.
inline void require_as_predicted(const Record& record, size_t tensor_size) {
  CHECK(record.device_peak == record.prediction.device);
  CHECK(record.host_peak == record.prediction.host);
  size_t num_lines = 0;
  double on_tensor_axis = 0;
  for (const auto& [key, measured] : record.communicated) {
    if (key.purpose == Purpose::control) continue;
    INFO(name_of(key.axis) << " " << name_of(key.purpose) << " " << name_of(key.collective));
    REQUIRE(record.prediction.step.count(key) == 1);
    CHECK(measured == record.prediction.step.at(key).times(kSteps));
    if (key.axis == Axis::tensor) {
      on_tensor_axis += wire_bytes(key.collective, tensor_size, measured.payload_bytes);
    }
    ++num_lines;
  }
  CHECK(num_lines == record.prediction.step.size());
  CHECK(record.tensor_shared_bytes == on_tensor_axis);
}

// Loss, gradients, norm, parameters and moments on groups of `ranks` ranks are the oracle's; memory
// and bytes are as predicted. Returns the record.
template <Trainer T>
Record require_split_run(const Record& oracle, const RunConfig& config, size_t ranks,
                         size_t tensor_size, const typename T::Flags& flags) {
  Groups groups(ranks);
  const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record, tensor_size);
  if (groups.group->rank() == 0) {
    require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
  }
  return record;
}

// The same in bf16 with micro-batches of 3 rows: near the oracle's fp64.
template <Trainer T>
Record require_split_low_precision(const Record& oracle, size_t ranks, size_t tensor_size,
                                   const typename T::Flags& flags) {
  const RunConfig config = split_config(DType::bf16, 3);
  Groups groups(ranks);
  const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record, tensor_size);
  if (groups.group->rank() == 0) {
    require_none(low_precision_differences(oracle, record, config));
  }
  return record;
}

}  // namespace ladder::testing
