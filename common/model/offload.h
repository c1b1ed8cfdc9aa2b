// Copies activations to the host after forward and back before backward. [Rhu16, vDNN;
// Rajbhandari21, ZeRO-Infinity, section 5.1.2]
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "common/model/activations.h"
#include "common/model/hooks.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// ActivationOffload has the host memory of the sets of every micro-batch in flight, and a stream
// for copies in each direction: in a pipeline forward passes copy to the host while backward passes
// copy back, and the bus takes both at once. A set is copied while the model computes on the other
// one (offload_plan.h):
//
//   compute   forward 0 | forward 1 | forward 2 | ...  | backward 2 | backward 1 | backward 0
//   copies              | 0 to host | 1 to host | ...  | 1 back     | 0 back     |
class ActivationOffload {
 public:
  // Allocates host memory, in the category activations, for `num_buffers` micro-batches of `rows`
  // rows. `shared` is the memory of the sets on the device, and must outlive this object, as must
  // the layout.
  ActivationOffload(Memory& host, const Layout& layout, DType dtype, size_t rows,
                    const SharedActivations& shared, DeviceType device, size_t num_buffers);
  // Waits for the copies.
  ~ActivationOffload();
  ActivationOffload(const ActivationOffload&) = delete;
  ActivationOffload& operator=(const ActivationOffload&) = delete;

  // Returns `hooks` with the copies added, for one pass over the micro-batch in `buffer`. A set has
  // been copied to the host when its turn comes again. REQUIRES: all calls have the same stream.
  Hooks added_to(const Hooks& hooks, Stream& stream, const Activations& activations, size_t buffer);

 private:
  struct Item {  // a tensor of a set
    size_t block, tensor;
    std::vector<Tensor> host;  // by buffer; empty if the set is not copied
  };
  // One of the places on the device.
  struct Turn {
    std::optional<std::pair<size_t, size_t>> holds;  // buffer and set
    bool was_copied = false;
    Event copied;  // the last copy from here or to here
  };

  void begin(const Use& use, Stream& stream, const Activations& activations, size_t buffer);
  void done(const Use& use, Stream& stream, const Activations& activations, size_t buffer);
  // Copies the set to its place, unless it is there.
  void fetch(Stream& stream, const Activations& activations, size_t buffer, size_t set);
  Turn& turn_of(size_t set) { return turns_[set % OffloadPlan::kTurns]; }

  const Layout& layout_;
  const OffloadPlan& plan_;
  std::vector<std::vector<Item>> sets_;
  std::array<Turn, OffloadPlan::kTurns> turns_;
  Stream to_host_, to_device_;
  Event computed_;
};

}  // namespace ladder
