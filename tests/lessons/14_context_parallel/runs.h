// Runs of lesson 14 on sequences of odd lengths.
#pragma once

#include "lessons/14_context_parallel/trainer.h"
#include "tests/lessons/split.h"

namespace ladder::testing {

inline RunConfig odd_config(DType dtype, size_t micro_batch_size, size_t length = 19) {
  RunConfig config = equivalence_config(dtype, micro_batch_size);
  config.model.sequence_length = length;
  return config;
}

inline constexpr Slicing kSlicings[] = {Slicing::zigzag, Slicing::contiguous};

// require_split_run() of lesson 14.
inline void require_run(const Record& oracle, const RunConfig& config, size_t ranks,
                        const ContextParallelTrainer::Flags& flags) {
  INFO(name_of(config.dtype) << ", " << ranks << " ranks, "
                             << (flags.context.slicing() == Slicing::zigzag ? "zigzag"
                                                                            : "contiguous"));
  require_split_run<ContextParallelTrainer>(oracle, config, ranks, flags);
}

}  // namespace ladder::testing
