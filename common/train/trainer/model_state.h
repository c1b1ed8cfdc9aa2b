// The state of a model that a trainer keeps from step to step.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/model/slices.h"
#include "common/model/weights.h"
#include "common/optimizer/state.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

class CheckpointReader;
class Communicator;
class MuonState;

// The ranks among which weights lie that Muon updates: shards or slices of them, or both
// (MuonHomes). Those of experts may lie among others.
struct MuonRanks {
  Communicator* all = nullptr;         // null: each rank has whole weights
  Communicator* of_divided = nullptr;  // of units of which each rank has other experts
  HomeChoice choice = HomeChoice::longest_first;
};

// ModelState has the parameters, the gradients and what the update rules keep, in flat buffers with
// the layout's order of units. Frozen parameters have neither gradients nor moments nor masters:
// only the buffer of parameters has the layout, the others have layout.trained().
//
// Parameters have the compute dtype, and gradients and what rules keep have the accumulation dtype.
// When the two dtypes differ (bf16, fp16), there is also a master copy of the parameters in the
// accumulation dtype: rules update the masters, and the parameters are the masters, rounded.
// [Micikevicius18, section 3.1] Masters also exist when the optimizer is on the host and the
// parameters are not. Otherwise rules update the parameters themselves.
//
// On several ranks a buffer may hold only this rank's shard of every unit, and it may be in host
// memory.
class ModelState {
 public:
  // Where a buffer is, and how much of it this rank has.
  struct Storage {
    bool is_sharded = false;         // true: only this rank's shards; false: all of it
    bool on_host = false;            // true: in the host's arena; false: in the device's
    MemorySource* source = nullptr;  // the source of its memory; null: the arena's own
  };
  struct Storages {
    Storage parameters = {}, gradients = {}, optimizer = {};
    MuonRanks muon = {};
  };

  // Allocates the buffers. `rank` is this rank's number among the layout's world_size ranks, which
  // hold the same part of the model: it says which shards are this rank's. The layout and what the
  // context refers to must outlive this object.
  ModelState(const TrainerContext& context, const Layout& layout, size_t rank,
             const Storages& storages);
  ModelState(const TrainerContext& context, const Layout& layout)
      : ModelState(context, layout, 0, Storages()) {}
  ~ModelState();

  // Sets the parameters that this rank holds to the values in the file of --init, or to those that
  // follow from the seed.
  void initialize();
  // Sets the gradients to zero. A pipeline's stage may have none. Asynchronous.
  void clear_gradients();
  // Returns the sum of the squares of the gradients that this rank owns. Synchronizes.
  double squared_norm();
  // Updates what the optimizer has state for: all that is trained, or this rank's shards. `norm` is
  // the norm of the whole gradient, by which it is clipped. Rules that need whole matrices come
  // first: that is collective over the ranks of Storages::muon, and waits. Then the others update
  // all units at once, asynchronously; with `after_unit`, unit by unit, each followed by a call.
  // Returns the learning rate.
  using AfterUnit = std::function<void(size_t unit)>;
  double update(double norm, const AfterUnit& after_unit = nullptr);
  // Sets the masters to the parameters, converted to the accumulation dtype, wherever this rank
  // holds both. REQUIRES: there are masters.
  void masters_from_parameters();

  // Sets everything that decides the steps to come to what a checkpoint has, except scalars: the
  // parameters that this rank holds, its masters and its moments. Each rank reads what it holds and
  // nothing else. Throws UserError if the checkpoint is damaged. REQUIRES: it is of this model.
  void restore(CheckpointReader& checkpoint);
  // Sets slices of one kind of tensors to what the checkpoint has.
  void restore(CheckpointReader& checkpoint, std::string_view kind,
               const std::vector<Slice>& slices);
  // Returns the numbers that decide the steps to come.
  std::vector<Scalar> scalars();

  // Returns the slices of the parameters that this rank holds.
  std::vector<Slice> held() const { return held_slices(layout_, rank_, parameters); }
  // Returns the slices that this rank owns of one kind of tensors. The kind is kParam (the masters
  // of parameters that have one), kGrad, or one that rules keep; other kinds have no slices.
  std::vector<Slice> slices(std::string_view kind) const;
  // Returns the buffer that is updated: the masters if there are any, else the parameters.
  TensorView updated_parameters() const;
  // Returns this rank's shard of a unit's part in the parameters.
  TensorView parameter_shard(size_t unit, UnitPart part = UnitPart::trained) const {
    return shard_of(layout_, unit, rank_, parameters.view(), part);
  }
  // Returns this rank's shard of a unit in another buffer.
  TensorView shard(TensorView buffer, size_t unit) const {
    return shard_of(trained_, unit, rank_, buffer);
  }

  // Returns what this rank has computed with whole matrices.
  MatrixWork matrix_work() const;

  const Layout& layout() const { return layout_; }
  Stream& stream() { return context_.stream; }

  Tensor parameters, gradients;
  const Rules rules;
  OptimizerState optimizer;
  int64_t step = 0;       // the number of steps begun so far, which decides which data come next
  double loss_scale = 1;  // the factor by which gradients are too large; the update divides by it

 private:
  // Updates what some rules have of these units: those that need whole matrices, or the others.
  void update(const UpdateStep& update_step, const std::vector<size_t>& units, bool by_matrices);
  // Returns the part of a unit that this rank updates, without state.
  UpdateTensors updated_tensors(size_t unit) const;
  // Returns the stream for work on this memory.
  Stream& stream_of(const TensorView& view);
  // Return what the optimizer has moments for of a unit: in the parameters, and in another buffer.
  TensorView updated_part(size_t unit) const;
  TensorView updated_part(size_t unit, TensorView buffer) const;
  // Gives the buffer the values of the first file that has them, or those of the seed.
  void load(const std::deque<WeightsFile>& files, const Layout& layout, TensorView buffer);

  TrainerContext context_;
  const Layout &layout_, &trained_;
  size_t rank_;
  Stream host_stream_{DeviceType::cpu};
  GradNorm grad_norm_;
  std::unique_ptr<MuonState> muon_;  // null if no rule needs whole matrices
  Tensor staging_;  // host memory for one full tensor, used by initialize() and restore()
};

}  // namespace ladder
