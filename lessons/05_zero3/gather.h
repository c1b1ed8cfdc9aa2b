// Parameters that are whole only while a unit uses them.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "common/comm/communicator.h"
#include "common/train/trainer.h"

namespace ladder {

struct GatherOptions {
  size_t prefetch = 1;          // units gathered ahead of the one in use
  bool keep_embedding = false;  // the token embedding stays from the embedding to the classifier
  bool reshard_after_forward = true;  // false: every unit stays from forward to backward
  void add_to(CLI::App& app, const char* group);
};

// Gathers each unit's parameters from all ranks' shards just before the model uses them, the next
// `prefetch` ones meanwhile, and gives their memory to later units afterwards. The walk of a
// micro-batch is known beforehand: every unit in forward, the token embedding again in the
// classifier, then final norm and blocks in backward (the embeddings' weights are not used there).
class UnitGatherer {
 public:
  // shards: this rank's shards alone, unit by unit, in memory of the device where peers can read
  // them in place; or, with `from_host`, in the host's, from where each is copied when its turn
  // comes.
  UnitGatherer(const TrainerContext& context, const Layout& layout, ConstTensorView shards,
               const GatherOptions& options, bool from_host = false);
  // Elements of memory for gathered units: the token embedding and prefetch + 1 times the largest
  // other unit; without resharding after forward all of them. Category: communication.
  static size_t num_elements(const Layout& layout, const GatherOptions& options);
  // What one training micro-batch gathers.
  static Traffic traffic(const Layout& layout, const GatherOptions& options, DType dtype);

  enum class Walk { training, evaluation };
  // weights and done, for one micro-batch.
  Hooks hooks(Stream& stream, Walk walk);
  // The most units that were gathered, or on their way, at one time.
  size_t most_gathered() const { return most_gathered_; }

 private:
  // One use of a unit by the model.
  struct Use {
    size_t unit;
    Pass pass;
    bool gathers = true;   // false: it is still there from the use before
    bool releases = true;  // false: the next use needs it, too
    size_t slot = 0;
  };
  struct Slot {
    Tensor memory;
    Work gather;         // the last that was started
    bool taken = false;  // holds, or is about to hold, a unit that has not been released
  };
  static std::vector<Use> plan(const Layout& layout, const GatherOptions& options, Walk walk);
  static std::vector<size_t> slot_elements(const Layout& layout, const GatherOptions& options);

  size_t num_taken() const;
  TensorView memory_of(const Use& use) const;
  void start(Stream& stream, const Use& use);
  // Copies this rank's shard of the unit into its place in `whole`.
  void copy_from_host(Stream& stream, size_t unit, TensorView whole);
  ConstUnitView weights(Stream& stream, size_t unit, Pass pass);
  void done(size_t unit, Pass pass);

  const Layout& layout_;
  ConstTensorView shards_;
  GatherOptions options_;
  bool from_host_;
  Communicator& world_;
  Stream copies_;  // from the host, beside the model's stream
  Event slot_free_;
  std::vector<Slot> slots_;

  std::vector<Use> uses_;
  size_t current_ = 0, next_ = 0;  // the use that the model is at, the first not yet started
  size_t most_gathered_ = 0;
};

// Weights from `gather`, gradients to `scatter`, and both hear what is done.
Hooks combined(const Hooks& gather, const Hooks& scatter);

}  // namespace ladder
