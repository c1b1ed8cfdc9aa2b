// Full tensors on rank 0, for dumps and samples, out of the slices that all ranks own.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/train/slices.h"

namespace ladder {

class FullTensors {
 public:
  // For tensors of `model` in `dtype`. Allocates host workspace: on all ranks for a piece of a
  // tensor, at most 2^20 elements, and on rank 0 for the largest tensor besides. `world`: all
  // ranks; must outlive this.
  FullTensors(Memory& host_memory, const ModelDescription& model, DType dtype, Communicator& world);

  // Hands every tensor of the model to rank 0's `sink`, one at a time, in the order of the
  // description. `owned`: what this rank owns of one kind; the ranks together own every element
  // once, which is checked. `stream`: of the device where slices lie. Collective. Synchronizes.
  void visit(const std::vector<Slice>& owned, Stream& stream, const TensorSink& sink);

 private:
  // Where a slice goes in the full tensor, as its rank tells rank 0.
  struct Place {
    uint64_t tensor = 0;  // index among all tensors of the model
    uint64_t first = 0, count = 0;
    Runs runs;
  };
  std::vector<Place> places_of(const std::vector<Slice>& owned) const;
  // On rank 0 the places of all ranks' slices, by rank.
  std::vector<std::vector<Place>> gather_places(const std::vector<Place>& own);
  // Calls body(part, begin) for the parts of `whole` that travel at a time; `begin` counts from the
  // first element of the whole.
  template <class Body>
  void for_pieces(const Place& whole, Body body);
  void place(const Place& part, TensorView full);

  Communicator& world_;
  Stream host_stream_{DeviceType::cpu};
  std::vector<ParameterSpec> tensors_;
  Tensor full_, piece_;
};

}  // namespace ladder
