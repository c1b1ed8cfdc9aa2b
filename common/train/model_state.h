// What a trainer keeps of the model from step to step.
#pragma once

#include <string_view>
#include <vector>

#include "common/model/optimizer.h"
#include "common/model/weights.h"
#include "common/train/slices.h"
#include "common/train/trainer.h"

namespace ladder {

// Parameters, gradients and the optimizer's state, each in a flat buffer of the layout.
//
// In bf16 and fp16 gradients, moments and a master copy of the parameters are fp32: AdamW updates
// the masters, and the parameters that the model computes with are these, rounded. [Micikevicius18,
// section 3.1] In fp32 and fp64 the parameters are the masters.
//
// On several ranks a buffer may have this rank's shard of every unit alone, and it may lie on the
// host.
class ModelState {
 public:
  // Where one of the buffers is, and how much of it.
  struct Place {
    bool is_sharded = false;         // this rank's shards alone
    bool on_host = false;            // in the host's arena instead of the device's
    MemorySource* source = nullptr;  // where its memory comes from; null: the arena's own
  };
  struct Places {
    Place parameters = {}, gradients = {}, optimizer = {};
  };

  // Allocates. `rank`: of those that hold the same part of the model. The layout must outlive this.
  ModelState(const TrainerContext& context, const Layout& layout, size_t rank,
             const Places& places);
  ModelState(const TrainerContext& context, const Layout& layout)
      : ModelState(context, layout, 0, Places()) {}

  // Gives the parameters that this rank holds the values of --init, or else those of the seed.
  void initialize();
  // The sum of the squares of this rank's shards of the gradients. Synchronizes.
  double squared_norm();
  // Updates all units.
  void update(const AdamWStep& step);
  // Updates what the optimizer has of one unit: all of it, or this rank's shard. Asynchronous.
  void update(const AdamWStep& step, size_t unit);
  // Masters = the parameters, widened, as far as this rank has both. REQUIRES: there are masters.
  void masters_from_parameters();

  // What this rank owns of a kind: kParam (the masters, where there are any), kGrad, kExpAvg or
  // kExpAvgSq; nothing of others. In the order of the layout.
  std::vector<Slice> slices(std::string_view kind) const;
  // What updates are made to: the masters or the parameters.
  TensorView updated_parameters() const;
  // This rank's shard of a unit, in one of the buffers.
  TensorView shard(TensorView buffer, size_t unit) const {
    return shard_of(layout_, unit, rank_, buffer);
  }

  const Layout& layout() const { return layout_; }
  Stream& stream() { return context_.stream; }

  Tensor parameters, gradients;
  AdamW optimizer;
  int64_t step = 0;  // steps begun so far; decides which data come next

 private:
  // Where work on this memory is queued.
  Stream& stream_of(const TensorView& view);
  // What the buffer has of a unit, and where in the flat buffer that begins.
  TensorView part_of(TensorView buffer, size_t unit) const;
  size_t begin_of(const TensorView& buffer, size_t unit) const;
  void load(const WeightsFile* file, TensorView buffer);

  TrainerContext context_;
  const Layout& layout_;
  size_t rank_;
  Stream host_stream_{DeviceType::cpu};
  GradNorm grad_norm_;
  Tensor staging_;  // one full tensor on the host, for --init
};

}  // namespace ladder
