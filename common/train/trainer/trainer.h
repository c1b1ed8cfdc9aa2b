// The interface of a lesson's trainer, and the context that it works with.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/corpus.h"
#include "common/grid/process_grid.h"
#include "common/model/classifier.h"
#include "common/model/mixture.h"
#include "common/model/slices.h"
#include "common/train/trainer/config.h"
#include "common/train/trainer/lesson_info.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// The result of one optimizer step on the global batch. It is the same on every rank.
struct StepResult {
  double loss = 0;       // mean over all tokens of the global batch that count, in nats
  double grad_norm = 0;  // norm of the whole gradient, before clipping
  double learning_rate = 0;
  // The loss scale that gradients were computed with; nothing in trainers that never scale.
  std::optional<double> loss_scale = {};
  bool skipped = false;  // true if gradients overflowed, so that nothing was updated
  // Set by a run: false if no token of the batch counts (CountedTokens), so that the loss is of
  // nothing. The update is made all the same.
  bool has_loss = true;
};

class CheckpointReader;
class ModelState;
struct NamedSlice;
struct PipelinePlan;
struct RankContext;

// A pipeline's plan of a run, made before there is a trainer (common/pipeline/plan.h).
using SharedPlan = std::shared_ptr<const PipelinePlan>;

// The tokens that count in the loss (kernels/runtime/target.h), over all steps of a run.
struct CountedTokens {
  size_t all = 0;         // tokens of the global batches, whether they count or not
  size_t divided_by = 0;  // by which all ranks' sums of losses were divided
  size_t classified = 0;  // of this rank's micro-batches, those with a loss computed here
  bool none = false;      // whether no token counted in the last loss, which then has no mean
  Hits hits;  // in evaluations, of this rank's micro-batches; with a classification head
};

// What a trainer works with. Everything outlives the trainer.
struct TrainerContext {
  const RunConfig& config;
  const Corpus& corpus;
  Memory& device_memory;
  Memory& host_memory;
  Stream& stream;
  const RankContext* ranks = nullptr;  // null in lessons that run on one rank (ranks.h)
  SharedPlan plan = nullptr;           // null in lessons that plan nothing
  CountedTokens* counted = nullptr;    // counts tokens, if it is not null
};
// Returns the grid of the ranks. If `ranks` is null it has one rank.
ProcessGrid grid_of(const TrainerContext& context);

// A trainer. Its class also has
//   Flags          its own options, with a function void add_to(FlagTable&)
//   kLesson        a Lesson<Flags> (below)
//   a constructor  from a TrainerContext and Flags. It allocates everything that the trainer will
//                  ever need, and nothing else: it and a step also run without memory and peers, to
//                  predict how much is allocated and sent (prediction.h)
class Trainer {
 public:
  Trainer() = default;
  Trainer(const Trainer&) = delete;
  virtual ~Trainer() = default;

  // Returns what the trainer keeps from step to step.
  virtual ModelState& state() = 0;
  // Makes one optimizer step on the next global batch.
  virtual StepResult step() = 0;
  // Returns the mean loss over the tokens that count in the first `num_batches` global batches of
  // the validation split.
  virtual double evaluate(size_t num_batches) = 0;

  // What follows is enough for most trainers as it is. Gives the state its first values.
  virtual void initialize();
  // Returns the slices of one kind that this rank owns (ModelState::slices).
  virtual std::vector<Slice> slices(std::string_view kind);
  // Returns all slices that a checkpoint has, by name, and sets them again from one.
  virtual std::vector<NamedSlice> stored();
  virtual void restore(CheckpointReader& from);
  // Returns the numbers that decide the steps to come. A checkpoint has only these and stored().
  virtual std::vector<Scalar> scalars();
  // Throws Error unless copies on several ranks are identical. Collective.
  virtual void check_replicas() {}
  // Returns lines for the end of the run, on rank 0. Collective.
  virtual std::string report() { return {}; }
};

// A lesson: its name, and what its flags mean before there is a trainer. All functions may be left
// out. It is a table, not members of the trainer's class, so that a misspelt name does not compile.
template <class Flags>
struct Lesson {
  LessonInfo info;
  // Returns the grid of `num_ranks` ranks as `rank` sees it. Throws UserError if they make none.
  // Without it all ranks share the global batch. It is asked before the model is known, too.
  ProcessGrid (*arrange)(const Flags&, size_t num_ranks, size_t rank) = nullptr;
  // Adds what the flags say of the model to the run's configuration, and to the flags what they
  // leave to the model. Throws UserError if they do not fit it.
  void (*adjust)(Flags&, RunConfig&) = nullptr;
  // Returns TrainerContext::plan, which is made once for all ranks of the grid.
  SharedPlan (*plan)(const Flags&, const RunConfig&, const ProcessGrid&) = nullptr;
  // Returns more lines for the header.
  std::string (*describe)(const Flags&, const RunConfig&, const ProcessGrid&,
                          const SharedPlan&) = nullptr;
  // Returns what runs the experts in samples of a model that has some.
  MixtureMaker (*make_mixture)(const Flags&, const RunConfig&) = nullptr;
};

}  // namespace ladder
