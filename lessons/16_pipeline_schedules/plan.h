// Plans the pipeline: the flags, the named schedules, and the search for a better one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/grid/process_grid.h"
#include "common/pipeline/plan.h"
#include "common/train/trainer/flag_value.h"
#include "lessons/16_pipeline_schedules/schedules.h"

namespace ladder {

struct ScheduleFlags {
  size_t pipeline_parallel_size = 0;          // 0: all ranks
  std::optional<Order> order = Order::zb_h1;  // nothing: found by search
  size_t chunks = 0;                          // of the model, on each stage; 0: the order's default
  std::vector<size_t> stage_layers = {};      // blocks of each chunk, in order; empty: cut by cost
  // Milliseconds that a micro-batch takes in all layers, for the search: forward, backward's halves
  // for inputs and weights, then the classifier and a message. Empty: by the FLOP of products.
  std::vector<double> times = {};
  void add_to(FlagTable& flags);
};

// Returns the bytes of device memory that the trainer of a stage allocates with this plan, on the
// rank that needs most. Of the stage's schedule it needs the number of activation buffers alone.
using StageBytes =
    std::function<size_t(const std::shared_ptr<const PipelinePlan>& plan, size_t stage)>;

// Plans the pipeline for the grid: with flags.order by its rule, else by a search, which calls
// `bytes` and keeps to config.device_memory. Throws UserError if the model, the micro-batches or
// the memory do not allow what the flags ask for. All ranks get the same plan.
std::shared_ptr<const PipelinePlan> plan_schedule(const RunConfig& config, const ProcessGrid& grid,
                                                  const ScheduleFlags& flags,
                                                  const StageBytes& bytes);
// Returns ProcessGrid::pipeline_links: kNumLinks for a schedule with Links::many, otherwise 0.
size_t num_links(const ScheduleFlags& flags);

}  // namespace ladder
