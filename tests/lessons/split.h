// What lessons 07 to 09 have to pass alike: cases over groups of 1, 2, 4 and 8 ranks.
#pragma once

#include "tests/lessons/sharded.h"

namespace ladder::testing {

// Loss, gradients, norm, parameters and moments on groups of `ranks` ranks are the oracle's; memory
// and bytes are as predicted. Returns the record.
template <class T>
Record require_split_run(const Record& oracle, const RunConfig& config, size_t ranks,
                         const typename T::Flags& flags) {
  Groups groups(ranks);
  const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record);
  if (groups.group->rank() == 0) {
    require_none(differences(oracle, record, bounds_for(config.dtype), config.optimizer));
  }
  return record;
}

// The same in bf16 with micro-batches of 3 rows: near the oracle's fp64.
template <class T>
Record require_split_low_precision(const Record& oracle, size_t ranks,
                                   const typename T::Flags& flags) {
  const RunConfig config = split_config(DType::bf16, 3);
  Groups groups(ranks);
  const Record record = record_run<T>(config, *groups.group, &groups.node_memory, flags);
  require_as_predicted(record);
  if (groups.group->rank() == 0) {
    require_none(low_precision_differences(oracle, record, config));
  }
  return record;
}

}  // namespace ladder::testing
