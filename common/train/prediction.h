// What a run will use, known before anything is allocated.
#pragma once

#include "common/comm/one_rank.h"
#include "common/train/full_tensors.h"
#include "common/train/program.h"
#include "common/train/ranks.h"

namespace ladder {

// What one rank will use.
struct Prediction {
  MemoryUse device, host;  // peak bytes by category
  TrafficEntries step;     // what a step communicates on each axis, apart from control traffic
};

// A place to construct a trainer of any rank of a grid without memory and without peers: the arenas
// count what they are asked for and hand out addresses of nothing.
class Rehearsal {
 public:
  Rehearsal(const RunConfig& config, const ProcessGrid& grid);
  TrainerContext context();
  // What the run itself adds.
  FullTensors full_tensors();
  MemoryUse device_peak() const { return device_.peak(); }
  MemoryUse host_peak() const { return host_.peak(); }

 private:
  RunConfig config_;
  ProcessGrid grid_;
  Corpus corpus_ = Corpus::king_james();
  Memory device_, host_;
  Stream stream_{DeviceType::cpu};
  Communicator world_;
  GridGroups groups_;
  RankContext ranks_;
};

// What rank grid.rank will use: peak memory, which is what the trainer's own constructor asks for,
// and what its formulas say that a step communicates. Local, needs no peers. UserError: flags that
// the trainer refuses.
Prediction predict(const Program& program, const RunConfig& config, const ProcessGrid& grid);
template <Trainer T>
Prediction predict(const RunConfig& config, const ProcessGrid& grid,
                   const typename T::Flags& flags) {
  return predict(make_program<T>(flags), config, grid);
}

}  // namespace ladder
