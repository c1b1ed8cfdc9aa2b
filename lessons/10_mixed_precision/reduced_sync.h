// Gradients that are summed over the ranks in fewer bits than they are computed in.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/train/trainer/flag_value.h"
#include "lessons/03_zero1/zero_flags.h"

namespace ladder {

// The dtype in which ranks sum gradients.
struct ReduceFlags {
  std::optional<DType> dtype = {};  // fp32, bf16 or fp16; nothing: the gradients' own dtype
  // `group` is the heading of the flag in --help.
  void add_to(FlagTable& flags);
  // Returns the dtype for a run. Throws UserError if an fp64 run asks for another one: fp64 runs
  // are for comparing lessons, and must round nothing.
  DType of(const RunConfig& config) const;
  // Allocates the flat buffer for gradients in this dtype. It is empty if that is their own dtype.
  Tensor make_buffer(const TrainerContext& context, const Layout& layout) const;
};

// ReducedSync wraps another GradientSync, `inner`, that works on the flat buffer `reduced`, which
// has another dtype. When a unit's gradient is final it is rounded into `reduced`, `inner` sums it
// there, and the sum is converted back.
class ReducedSync final : public GradientSync {
 public:
  ReducedSync(ModelState& state, TensorView reduced, std::unique_ptr<GradientSync> inner)
      : state_(state), reduced_(reduced), inner_(std::move(inner)) {}

  Hooks hooks() override;
  void wait() override;
  TensorView summed(size_t unit) const override;
  double update(double norm) override { return inner_->update(norm); }

 private:
  ModelState& state_;
  TensorView reduced_;
  std::unique_ptr<GradientSync> inner_;
  std::vector<size_t> final_;  // units whose gradients are final, and whose sums are not back yet
};

// Makes the sync of a stage of ZeRO. It sums gradients in `reduced`, unless that is empty.
std::unique_ptr<GradientSync> make_reduced_sync(const ZeroFlags& flags, ModelState& state,
                                                Communicator& ranks, TensorView reduced);

}  // namespace ladder
