// The requirements on a lesson's trainer, and what a trainer is given.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/data/corpus.h"
#include "common/grid/process_grid.h"
#include "common/io/cli11.h"
#include "common/model/slices.h"
#include "common/train/trainer/config.h"
#include "common/train/trainer/lesson_info.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// The result of one optimizer step on the global batch. It is the same on every rank.
struct StepResult {
  double loss = 0;       // mean over all tokens of the global batch, in nats
  double grad_norm = 0;  // norm of the whole gradient, before clipping
  double learning_rate = 0;
  // The loss scale that gradients were computed with; nothing in trainers that never scale.
  std::optional<double> loss_scale = {};
  bool skipped = false;  // true if gradients overflowed, so that nothing was updated
};

struct RankContext;
class ModelState;

// What a trainer works with. Everything outlives the trainer.
struct TrainerContext {
  const RunConfig& config;
  const Corpus& corpus;
  Memory& device_memory;
  Memory& host_memory;
  Stream& stream;
  const RankContext* ranks = nullptr;  // null in lessons that run on one rank (ranks.h)
};
// Returns the grid of the ranks: that of one rank if `ranks` is null.
ProcessGrid grid_of(const TrainerContext& context);

// A trainer is a class with
//   kLesson                  its name and description
//   Flags                    its own options: void add_to(CLI::App&)
//   a constructor            allocates everything that it will ever need, and nothing else: it also
//                            runs where there is neither memory nor peers, and so does a step, to
//                            find out how much that is and what is communicated (prediction.h)
//   ModelState& state()      what it keeps from step to step (model_state.h)
//   StepResult step()        one optimizer step on the next global batch
//   double evaluate(n)       mean loss over n global batches of the validation split, always the
//                            same ones
//   slices(kind)             optional: the slices of the model that this rank owns, for dumps, if
//                            they are not just those of state()
//   scalars()                optional: numbers that decide the steps to come, besides those of
//                            state(). What is in neither must not decide anything: it is lost when
//                            training resumes from a checkpoint
//   stored(), restore(from)  optional: slices that a checkpoint has besides those of state(), by
//                            name, and what sets them again
//   check_replicas()         optional: throws Error unless copies on several ranks are identical
//   kDistributed             optional: true if it runs on several ranks
//   arrange(flags, n, rank)  optional, static: the grid of n ranks as one of them sees it; throws
//                            UserError if n ranks make no grid. Without it all ranks share the
//                            global batch
//   describe(config, grid, flags)  optional, static: more lines for the header
//   plan(config, grid, flags)  optional, static: what the trainer plans of a run, cheap to copy. It
//                            is made once for all ranks of the grid, and comes after the other
//                            arguments of the constructor and of describe()
//   adjust(config, flags)    optional, static: adds what the flags say of the model to the run's
//                            configuration; throws UserError if they do not fit it
//   make_mixture(config, flags)  optional, static: a MixtureMaker (sample.h), for samples of a
//                            model with experts
//   report()                 optional: lines for the end, on rank 0; collective
template <class T>
concept PlanningTrainer = requires(const RunConfig& config, const ProcessGrid& grid,
                                   const typename T::Flags& flags) {
  T::plan(config, grid, flags);
};
template <class T>
concept Trainer = requires(T trainer, typename T::Flags flags, const TrainerContext& context,
                           CLI::App& app) {
  { T::kLesson } -> std::convertible_to<const LessonInfo&>;
  flags.add_to(app);
  { trainer.state() } -> std::same_as<ModelState&>;
  { trainer.step() } -> std::same_as<StepResult>;
  { trainer.evaluate(size_t{1}) } -> std::same_as<double>;
};

}  // namespace ladder
