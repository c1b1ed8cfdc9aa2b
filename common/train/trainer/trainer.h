// What a lesson's trainer is, and what it is given.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/corpus.h"
#include "common/grid/process_grid.h"
#include "common/io/cli11.h"
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
};

class CheckpointReader;
class ModelState;
struct NamedSlice;
struct PipelinePlan;
struct RankContext;

// What a pipeline's trainer plans of a run, before there is a trainer (common/pipeline/plan.h).
using SharedPlan = std::shared_ptr<const PipelinePlan>;

// The tokens that count in the loss (kernels/runtime/target.h), over all steps of a run.
struct CountedTokens {
  size_t all = 0;         // tokens of the global batches, whether they count or not
  size_t divided_by = 0;  // what the losses' sums were divided by: those of all ranks
  size_t classified = 0;  // those of this rank's micro-batches that it has computed losses of
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
  CountedTokens* counted = nullptr;    // what to add the tokens to that count; null = nobody asks
};
// Returns the grid of the ranks: that of one rank if `ranks` is null.
ProcessGrid grid_of(const TrainerContext& context);

// A trainer. Its class also has
//   Flags          its own options, with a function void add_to(CLI::App&)
//   kLesson        a Lesson<Flags> (below)
//   a constructor  from a TrainerContext and Flags. It allocates everything that the trainer will
//                  ever need, and nothing else: it also runs where there is neither memory nor
//                  peers, and so does a step, to find out how much that is and what is communicated
//                  (prediction.h)
class Trainer {
 public:
  Trainer() = default;
  Trainer(const Trainer&) = delete;
  virtual ~Trainer() = default;

  // Returns what the trainer keeps from step to step.
  virtual ModelState& state() = 0;
  // Makes one optimizer step on the next global batch.
  virtual StepResult step() = 0;
  // Returns the mean loss over the tokens that count in so many global batches of the validation
  // split, always the same.
  virtual double evaluate(size_t num_batches) = 0;

  // The rest is enough as it is for most trainers. Gives the state its first values.
  virtual void initialize();
  // Returns the slices of one kind that this rank owns (ModelState::slices).
  virtual std::vector<Slice> slices(std::string_view kind);
  // Returns all slices that a checkpoint has, by name, and sets them again from one.
  virtual std::vector<NamedSlice> stored();
  virtual void restore(CheckpointReader& from);
  // Returns the numbers that decide the steps to come. What is neither here nor in stored() must
  // not decide anything: it is lost when training resumes from a checkpoint.
  virtual std::vector<Scalar> scalars();
  // Throws Error unless copies on several ranks are identical. Collective.
  virtual void check_replicas() {}
  // Returns lines for the end of the run, on rank 0. Collective.
  virtual std::string report() { return {}; }
};

// A lesson: what it is called, and what its flags mean before there is a trainer. All functions may
// be left out. A table rather than members of the trainer's class, so that a misspelt name does not
// compile.
template <class Flags>
struct Lesson {
  LessonInfo info;
  // Returns the grid of so many ranks as one of them sees it. Throws UserError if they make none.
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
