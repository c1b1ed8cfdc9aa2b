// Predicts the memory and the communication of a run before anything is allocated.
#pragma once

#include "common/checkpoint/writer.h"
#include "common/comm/one_rank.h"
#include "common/train/program/program.h"
#include "common/train/trainer/full_tensors.h"
#include "common/train/trainer/ranks.h"
#include "common/virtual/dry_run.h"
#include "common/virtual/lazy_memory.h"

namespace ladder {

// The memory and communication of one rank.
struct Prediction {
  MemoryUse device, host;  // peak bytes by category
  TrafficEntries step;     // what a step communicates on each axis, without control traffic
  // Groups of several ranks along axes of the grid that the rank is in, those of the trainer's too.
  size_t num_groups = 0;
};

// The host memory that writing a checkpoint takes. If training goes on meanwhile, it is a copy of
// all slices that this rank owns. Otherwise it is one file block if the slices are on a device, and
// nothing if they are on the host: they are written from where they are.
Tensor checkpoint_buffer(Memory& host_memory, const RunConfig& config,
                         const std::vector<NamedSlice>& slices);

// A Rehearsal lets a trainer of any rank of a grid be constructed, and take a step, without memory
// and without peers. While it exists nothing is computed (common/virtual/dry_run.h). Its arenas
// count what they are asked for; what lies on the device must not be used.
class Rehearsal {
 public:
  Rehearsal(const RunConfig& config, const ProcessGrid& grid);
  TrainerContext context();
  // Allocates, in the same way, what a run needs besides the trainer.
  FullTensors full_tensors();
  Tensor checkpoint_buffer(const std::vector<NamedSlice>& slices);
  MemoryUse device_peak() const { return device_.peak(); }
  MemoryUse host_peak() const { return host_.peak(); }
  size_t num_groups() const { return unconnected_.num_groups(); }
  // Returns what has been communicated, without control traffic. Where that depends on the data it
  // is the mean over the ranks.
  TrafficEntries traffic() const;

 private:
  DryRun dry_run_;  // before all that has streams
  RunConfig config_;
  ProcessGrid grid_;
  Corpus corpus_ = Corpus::king_james();
  LazyMemory host_source_;
  Memory device_, host_;
  Stream stream_;
  Unconnected& unconnected_;  // the transport of `world_`
  Communicator world_;
  GridGroups groups_;
  RankContext ranks_;
};

// Returns the bytes of device memory that the trainer of rank grid.rank allocates, given its plan.
template <class T>
size_t device_bytes(const RunConfig& config, const ProcessGrid& grid,
                    const typename T::Flags& flags, const SharedPlan& plan) {
  Rehearsal rehearsal(config, grid);
  TrainerContext context = rehearsal.context();
  context.plan = plan;
  const T trainer(context, flags);
  return rehearsal.device_peak().total();
}

// Predicts what rank grid.rank will use, in a rehearsal: the peak memory by running the trainer's
// constructor, and the communication by letting it take a step. It needs no peers and allocates
// nothing. Throws UserError if the trainer refuses its flags.
Prediction predict(const Program& program, const RunConfig& config, const ProcessGrid& grid);
template <class T>
Prediction predict(const RunConfig& config, const ProcessGrid& grid,
                   const typename T::Flags& flags) {
  return predict(make_program<T>(flags), config, grid);
}
// Predicts the memory alone, which is faster where a step has many micro-batches.
Prediction predict_memory(const Program& program, const RunConfig& config, const ProcessGrid& grid);

}  // namespace ladder
