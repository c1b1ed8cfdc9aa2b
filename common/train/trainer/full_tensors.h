// Puts full tensors together on rank 0 from the slices that all ranks own, for dumps, exports and
// samples.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/model/slices.h"
#include "common/optimizer/rule.h"

namespace ladder {

class FullTensors {
 public:
  // Makes ready for tensors of `model` in `dtype`. Allocates host workspace: on every rank for a
  // segment of a tensor, at most 2^20 elements, and on rank 0 for the largest tensor too. `world`
  // has all ranks, and must outlive this object.
  FullTensors(Memory& host_memory, const ModelDescription& model, DType dtype, Communicator& world);

  // Gives every tensor of one kind to rank 0's `sink`, one at a time, in the order of the model's
  // description, without those that a run with this optimizer does not keep(). `owned` has this
  // rank's slices of them. All ranks together must own every element exactly once, or it throws an
  // Error. `stream` is on the device where the slices lie, and is synchronized. Collective.
  void visit(const OptimizerConfig& optimizer, std::string_view kind,
             const std::vector<Slice>& owned, Stream& stream, const TensorSink& sink);

 private:
  // Where a slice goes in the full tensor. Each rank sends its ranges to rank 0.
  struct Range {
    uint64_t tensor = 0;  // index among all tensors of the model
    uint64_t first = 0, count = 0;
    Ranges ranges;
  };
  std::vector<Range> ranges_of(const std::vector<Slice>& owned) const;
  // Returns the ranges of all ranks' slices, by rank, on rank 0. Collective.
  std::vector<std::vector<Range>> gather_ranges(const std::vector<Range>& own);
  // Calls body(part, begin) for each part of `whole` that travels in one message. The part begins
  // at element `begin` of the whole.
  template <class Body>
  void for_segments(const Range& whole, Body body);
  // Copies elements to the host, and converts them to the segment's dtype. Synchronizes the stream.
  void fetch(Stream& stream, TensorView segment, ConstTensorView elements);
  // Copies the segment that has arrived to its place in the full tensor.
  void put(const Range& part, TensorView full);

  Communicator& world_;
  Stream host_stream_{DeviceType::cpu};
  std::vector<ParameterSpec> tensors_;
  Tensor full_, segment_;
};

}  // namespace ladder
