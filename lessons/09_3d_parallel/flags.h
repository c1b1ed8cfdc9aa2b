// The flags of lesson 09: the sizes of the axes, and what the lessons of each axis offer.
#pragma once

#include <string>
#include <vector>

#include "common/train/trainer/flag_value.h"
#include "lessons/10_mixed_precision/reduced_sync.h"
#include "lessons/14_context_parallel/context_share.h"
#include "lessons/16_pipeline_schedules/plan.h"

namespace ladder {

struct ThreeDFlags {
  size_t tensor_parallel_size = 1;
  bool sequence_parallel = false;
  bool scatter_messages = false;
  std::vector<std::string> no_overlap = {};  // axes that communicate while nothing computes
  ContextFlags context = {};
  ScheduleFlags pipeline = {.order = Order::one_f_one_b};
  ZeroFlags zero = {};
  ReduceFlags reduce = {};

  void add_to(FlagTable& flags);
  // Returns whether communication along the axis runs beside computation.
  bool overlaps(Axis axis) const;
  // Returns the grid of so many ranks as one of them sees it. Throws UserError if they make none,
  // or if flags do not go together.
  ProcessGrid arrange(size_t num_ranks, size_t rank) const;
};

}  // namespace ladder
