// Gradients that are whole only while a unit's backward runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/comm/communicator.h"
#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// Gives backward scratch for the gradient of the unit it is at, sums it over the ranks as soon as
// it is final, and hands each rank its shard of the sum. Units take turns in the slots of scratch:
// while backward fills one, the sum of the unit before is under way in another.
//
// The token embedding's gradient begins with the classifier and is final at the very end, so it has
// scratch of its own. Summing it in two parts would cost its bytes twice and change the bits.
class GradientShards {
 public:
  // Takes this rank's shard of a unit's sum once `summed` has been waited for. Asynchronous:
  // returns the stream on which the taking is queued.
  using Take =
      std::function<Stream&(Stream& stream, size_t unit, Work& summed, ConstTensorView shard)>;

  // REQUIRES: num_slots >= 2.
  GradientShards(const TrainerContext& context, const Layout& layout, size_t num_slots, Take take);
  // Adds what it takes to `shards`: this rank's shards alone, unit by unit.
  GradientShards(const TrainerContext& context, const Layout& layout, TensorView shards);
  // Elements of scratch: the token embedding and num_slots times the largest other unit. Category:
  // communication.
  static size_t num_elements(const Layout& layout, size_t num_slots = 2);

  // For every micro-batch's backward.
  Hooks hooks(Stream& stream);
  // What is queued on `stream` from now on sees everything taken.
  void wait(Stream& stream);

 private:
  struct Slot {
    Tensor memory;
    bool open = false;              // backward is adding to it
    std::optional<size_t> summing;  // the unit whose sum is under way
    Work summed;
    std::unique_ptr<Event> taken;  // null: nothing was ever taken
  };
  Slot& slot_of(size_t unit);
  UnitView open(Stream& stream, size_t unit);
  void close(Stream& stream, size_t unit);
  // Has what is under way in the slot taken.
  void take(Stream& stream, Slot& slot);

  const Layout& layout_;
  Communicator& world_;
  Take take_;
  std::vector<Slot> slots_;  // the first is the token embedding's
};

}  // namespace ladder
