// Plans the pipeline: the flags, the named schedules, and the search for a better one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/grid/process_grid.h"
#include "common/io/cli11.h"
#include "common/pipeline/plan.h"
#include "lessons/16_pipeline_schedules/schedules.h"

namespace ladder {

struct ScheduleFlags {
  size_t pipeline_parallel_size = 0;          // 0: all ranks
  std::optional<Order> order = Order::zb_h1;  // nothing: found by search
  size_t chunks = 0;                          // model chunks of each stage; 0: the order's default
  std::vector<size_t> stage_layers = {};      // blocks of each model chunk; empty: cut by cost
  // Milliseconds that one micro-batch takes in the whole model, for the search: forward, the two
  // halves of backward, the classifier, a message. Empty: as the FLOP of products say.
  std::vector<double> times = {};
  void add_to(CLI::App& app);
};

// Returns the bytes of device memory that the trainer of a stage allocates with this plan, whose
// schedule only says how many activation buffers the stage has. Of the ranks that have this stage
// it is the one that needs most.
using StageBytes =
    std::function<size_t(const std::shared_ptr<const PipelinePlan>& plan, size_t stage)>;

// Plans the pipeline for the ranks of the grid. Throws UserError if the model, the micro-batches or
// the memory do not allow what the flags ask for. `bytes` is for the search alone. All ranks get
// the same plan.
std::shared_ptr<const PipelinePlan> plan_schedule(const RunConfig& config, const ProcessGrid& grid,
                                                  const ScheduleFlags& flags,
                                                  const StageBytes& bytes);
// Returns how many links the schedule needs (ProcessGrid::pipeline_links).
size_t num_links(const ScheduleFlags& flags);

}  // namespace ladder
