// Plans the pipeline: which chunks of the model each stage has, and what it does when.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/io/cli11.h"
#include "common/schedule/search.h"
#include "common/train/pipeline_report.h"
#include "lessons/16_pipeline_schedules/chunks.h"
#include "lessons/16_pipeline_schedules/schedules.h"

namespace ladder {

struct ScheduleFlags {
  size_t pipeline_parallel_size = 0;          // 0: all ranks
  std::optional<Order> order = Order::zb_h1;  // nothing: found by search
  size_t chunks = 0;                          // on each stage; 0: the order's default
  std::vector<size_t> stage_layers = {};      // blocks of each chunk, in order; empty: cut by cost
  // Milliseconds that a micro-batch takes in all layers, for the search: forward, backward's halves
  // for inputs and weights, then the classifier and a message. Empty: by the FLOP of products.
  std::vector<double> times = {};
  // The schedules that searches have found, by problem (common/schedule/search.h). A run plans its
  // pipeline several times with copies of these flags; they share it, so it searches once.
  std::shared_ptr<FoundWork> found = std::make_shared<FoundWork>();
  void add_to(CLI::App& app);
};

// The plan of a pipeline: every stage holds as many chunks of the model.
struct ChunkPlan {
  ChunkPlacement placement;      // which stage has which chunk
  std::vector<ModelPart> parts;  // the chunks of all stages, in the order of the model
  PipelinePlan pipeline;         // what each stage does when

  // Returns the layouts of one stage. `split` says how other ranks split its tensors and tokens,
  // and `num_replicas` ranks have the same part.
  ChunkLayouts layouts(const Gpt2Config& config, size_t stage, const ModelPart& split = {},
                       size_t num_replicas = 1) const;
  const StageSchedule& schedule(size_t stage) const { return pipeline.schedule[stage]; }
  // Returns what a stage keeps of the plan: its own list, or all lists on the first stage, which
  // reports. All lists of 35 stages take 9 MB, too much for each of thousands of simulated ranks.
  ChunkPlan of_stage(size_t stage) const;
};

// What a rank knows of the pipeline: the plan, its own stage, and the layouts of what it holds.
struct ChunkStage {
  ChunkPlan plan;
  size_t index;  // of the stage
  ChunkLayouts layouts;

  const StageSchedule& schedule() const { return plan.schedule(index); }
  size_t num_slots() const { return ladder::num_slots(schedule()); }
  GradientDirections sends() const;
  // Returns what the stage sends and receives in a step: pipeline_traffic() less its own copies.
  TrafficEntries traffic(const RunConfig& config, bool in_shards) const;
};

// Returns the bytes of device memory that one stage's trainer allocates, on the rank that needs
// most. A slot holds one micro-batch's activations of one chunk, so 2 slots less 1 is its size.
using StageBytes = std::function<size_t(const ChunkPlan& plan, size_t stage, size_t num_slots)>;

// Plans the pipeline for the grid: with flags.order by its rule, else by a search, which calls
// `bytes` and keeps to config.device_memory. Throws UserError if the model, the micro-batches or
// the memory do not allow what the flags ask for. All ranks get the same plan.
ChunkPlan plan_chunks(const RunConfig& config, const ProcessGrid& grid, const ScheduleFlags& flags,
                      const StageBytes& bytes);
// Returns ProcessGrid::pipeline_links: kNumLinks for a schedule with Links::many, otherwise 0.
size_t num_links(const ScheduleFlags& flags);

}  // namespace ladder
