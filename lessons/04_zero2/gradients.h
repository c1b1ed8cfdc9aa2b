// Gradients that are whole only while a unit's backward runs.
#pragma once

#include <array>
#include <optional>

#include "common/comm/communicator.h"
#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// Gives backward scratch for the gradient of the unit it is at, sums it over the ranks as soon as
// it is final, and adds each rank's shard of the sum to the rank's gradients. One unit's sum is
// under way while backward fills the next one's scratch.
//
// The token embedding's gradient begins with the classifier and is final at the very end, so it has
// scratch of its own. Summing it in two parts would cost its bytes twice and change the bits.
class GradientShards {
 public:
  // shards: this rank's shards alone, unit by unit.
  GradientShards(const TrainerContext& context, const Layout& layout, TensorView shards);
  // Elements of scratch: the token embedding and twice the largest other unit. Category:
  // communication.
  static size_t num_elements(const Layout& layout);

  // For every micro-batch's backward.
  Hooks hooks(Stream& stream);
  // Returns when everything is in the shards.
  void wait(Stream& stream);

 private:
  struct Slot {
    Tensor memory;
    bool open = false;              // backward is adding to it
    std::optional<size_t> summing;  // the unit whose sum is under way
    Work work;
  };
  Slot& slot_of(size_t unit);
  // Waits for what is under way in the slot, and adds it to the shards.
  void retire(Stream& stream, Slot& slot);

  UnitView open(Stream& stream, size_t unit);
  void close(Stream& stream, size_t unit);

  const Layout& layout_;
  TensorView shards_;
  Communicator& world_;
  std::array<Slot, 3> slots_;
};

}  // namespace ladder
