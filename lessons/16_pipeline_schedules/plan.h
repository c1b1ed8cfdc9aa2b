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
  size_t chunks = 0;                          // of each stage; 0: the order's default
  std::vector<size_t> stage_layers = {};      // blocks of each part; empty: cut by cost
  // Milliseconds that one micro-batch takes in the whole model, for the search: forward, the two
  // halves of backward, the classifier, a message. Empty: as the FLOP of products say.
  std::vector<double> times = {};
  // What searches have found. Copies of the flags share it: a run plans its pipeline several times.
  std::shared_ptr<FoundWork> found = std::make_shared<FoundWork>();
  void add_to(CLI::App& app);
};

// The plan of a pipeline with chunks.
struct ChunkPlan {
  ChunkPlacement placement;
  std::vector<ModelPart> parts;  // in the order of the model
  PipelinePlan pipeline;

  // Returns the layouts of one stage. `split` says how other ranks split its tensors and tokens,
  // and `num_replicas` ranks have the same part.
  ChunkLayouts layouts(const Gpt2Config& config, size_t stage, const ModelPart& split = {},
                       size_t num_replicas = 1) const;
  const StageSchedule& schedule(size_t stage) const { return pipeline.schedule[stage]; }
  // Returns what a stage keeps of the plan: the lists of the other stages are empty, but the first
  // stage, which reports on the pipeline, has them all. With 35 stages and 280 micro-batches in
  // three chunks all lists take 9 MB, too much for each of thousands of simulated ranks.
  ChunkPlan of_stage(size_t stage) const;
};

// A rank's place in the pipeline: its stage, and what it has there.
struct ChunkStage {
  ChunkPlan plan;
  size_t index;
  ChunkLayouts layouts;

  const StageSchedule& schedule() const { return plan.schedule(index); }
  size_t num_slots() const { return ladder::num_slots(schedule()); }
  GradientDirections sends() const;
  // Returns what the stage sends and receives in a step: pipeline_traffic(), without the messages
  // to itself, which are copies.
  TrafficEntries traffic(const RunConfig& config, bool in_shards) const;
};

// Returns the bytes of device memory that a trainer of one stage allocates, with so many slots. Of
// the ranks that have this stage it is the one that needs most.
using StageBytes = std::function<size_t(const ChunkPlan& plan, size_t stage, size_t num_slots)>;

// Plans the pipeline for the ranks of the grid. Throws UserError if the model, the micro-batches or
// the memory do not allow what the flags ask for. `bytes` is for the search alone. All ranks get
// the same plan.
ChunkPlan plan_chunks(const RunConfig& config, const ProcessGrid& grid, const ScheduleFlags& flags,
                      const StageBytes& bytes);
// Returns how many links the schedule needs (ProcessGrid::pipeline_links).
size_t num_links(const ScheduleFlags& flags);

}  // namespace ladder
