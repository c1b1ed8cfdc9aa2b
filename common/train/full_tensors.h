// Full tensors for dumps and sampling, where ranks hold parts of the model.
#pragma once

#include <vector>

#include "common/train/trainer.h"

namespace ladder {

// Full tensors out of the slices of tensor-parallel ranks, one at a time in host memory of the
// first of them.
class SliceCollector {
 public:
  SliceCollector(const TrainerContext& context, const Layout& layout);
  // Bytes of host workspace on this rank: a full tensor and a slice of it, on the first rank.
  static size_t num_bytes(const Layout& layout, DType dtype);

  // Every rank visits its own tensors, in the same order, with the sink that this makes: on the
  // first rank `sink` receives full tensors. Collective.
  TensorSink joined(const TensorSink& sink);

 private:
  void place(const Parameter& parameter, size_t rank, ConstTensorView slice, TensorView full);

  Communicator& ranks_;
  Stream host_stream_{DeviceType::cpu};
  Tensor full_, slice_;  // on the first of several ranks
};

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
