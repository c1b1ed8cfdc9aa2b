// How a model is spread over the stages of a pipeline, and what that communicates.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/comm/process_grid.h"
#include "common/schedule/simulate.h"
#include "common/train/trainer.h"
#include "lessons/08_pipeline_parallel/cut.h"
#include "lessons/08_pipeline_parallel/pipeline.h"
#include "lessons/08_pipeline_parallel/schedules.h"

namespace ladder {

struct PipelineFlags {
  size_t pipeline_parallel_size = 0;  // 0: what the lesson takes by itself
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<size_t> stage_layers = {};  // empty: cut by cost
  std::string draw = {};                  // path of an SVG; empty = none
  void add_to(CLI::App& app);
  // UserError unless the file of --draw can be written.
  void check_files() const;
};

// The units of each stage (by stage), in forward order. UserError where they cannot be cut so.
std::vector<ModelPart> stages_of(const Gpt2Config& config, size_t num_stages,
                                 const PipelineFlags& flags);

// Adds what a stage sends: an activation or its gradient, R C elements, for each message.
void add_messages(Prediction& prediction, const RunConfig& config, const StageSchedule& stage);

// "h.3 to ln_f and classifier": the units of a stage.
std::string units_text(const Layout& layout);

// Lines for the header: the cut with its balance (mean / largest share of the matrix-product
// FLOPs), and the schedule drawn, where it fits a terminal.
std::string describe_pipeline(const RunConfig& config, const ProcessGrid& grid,
                              const PipelineFlags& flags);

// Writes the drawing of --draw, if there is one; rank 0 of the grid does. UserError, Error.
void draw_pipeline(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags);

// Lines for the end: the bubble measured, that of the schedule with the forward and backward times
// measured, and (p - 1) / (m + p - 1). Collective over the stages.
std::string bubble_report(Communicator& stages, const Schedule& schedule, ScheduleKind kind,
                          const Pipeline::Times& times, size_t num_micro_batches);

// Full tensors of all stages on rank 0 of the grid: it visits its own, then receives the others',
// stage after stage. `visit_own` visits a stage's tensors. Collective over the stages.
class StageCollector {
 public:
  // `parts`: of all stages.
  StageCollector(const TrainerContext& context, const std::vector<ModelPart>& parts);
  // Bytes of host workspace on this rank: the largest tensor of other stages, on rank 0.
  static size_t num_bytes(const RunConfig& config, const std::vector<ModelPart>& parts,
                          const ProcessGrid& grid);

  void visit(const std::function<void(const TensorSink&)>& visit_own, const TensorSink& sink);

 private:
  Communicator& stages_;
  Stream host_stream_{DeviceType::cpu};
  std::vector<Layout> others_;  // of the stages behind the first, whole tensors
  Tensor host_;
};

}  // namespace ladder
