// Plans the pipeline: which chunks of the model each stage has, and what it does when.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/schedule/search.h"
#include "common/train/named_files.h"
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
  std::string draw = {};  // path of an SVG; empty = none
  void add_to(CLI::App& app);
  std::vector<NamedFile> outputs() const { return {{"--draw", draw}}; }
};

// The plan of a pipeline with chunks.
struct ChunkPlan {
  ChunkPlacement placement;
  std::vector<ModelPart> parts;  // in the order of the model
  PipelinePlan pipeline;

  // Returns the layouts of one stage.
  ChunkLayouts layouts(const RunConfig& config, size_t stage) const;
  const StageSchedule& schedule(size_t stage) const { return pipeline.schedule[stage]; }
};

// Plans the pipeline for the ranks of the grid. Throws UserError if the model, the micro-batches or
// the memory do not allow what the flags ask for.
ChunkPlan plan_chunks(const RunConfig& config, const ProcessGrid& grid, const ScheduleFlags& flags);

// What a trainer of one stage allocates on the device.
struct StageMemory {
  StageMemory(const TrainerContext& context, const ChunkLayouts& layouts,
              const ChunkPlacement& placement, size_t num_slots);
  ModelState state;
  ChunkRunner runner;
};

}  // namespace ladder
